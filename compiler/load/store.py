"""The folders of specs: names, documents, and the complete set that a profile refers to."""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from compiler import secrets
from compiler.diagnostics import Diagnostic, Place, Position, Route, Severity
from compiler.load.flags import flag_table
from compiler.load.validate import validated
from compiler.load.yaml_text import MAX_BYTES, Document, parsed, shown
from compiler.schema import FOLDERS, KINDS, EvidenceSpec, Measurement, ProfileSpec, Spec
from compiler.schema.flags import FlagTable
from compiler.schema.lock import LockSpec

MERGED = frozenset({"settings", "engine_args", "env", "container", "bridge", "watchdog", "deploy", "client"})
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
_ESCAPE = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|\n[ \t]*)")
LONGEST_DATA = 8 * MAX_BYTES  # Flag snapshots and locks are written by programs, and are longer than any spec.
_LONGEST_PART = 255  # Bytes of a file name on every file system in use.
_SECRET = (
    "this looks like a secret in clear ({kind}); it is not shown here",
    "Specs are shared and go into images, manifests and logs; whoever reads one could use it.",
    "Revoke it now, then name it under `secrets:` and store its value with the provider.",
)


class SpecStore:
    """Specs in one or more folders; an earlier folder wins where two hold the same name.

    Files are named in plans as `specs/<folder>/<name>.yaml` wherever they lie, so that the same specs give the same
    bytes on any machine; messages show the path that the user can open.
    """

    def __init__(self, roots: Sequence[Path]) -> None:
        self.roots = tuple(roots)
        self._documents: dict[str, tuple[Document, list[Diagnostic]]] = {}
        self._specs: dict[tuple[str, str], tuple[Any, list[Diagnostic]]] = {}
        self._flags: dict[str, FlagTable] = {}
        self._files: dict[str, Path] = {}
        self._texts: dict[str, tuple[str | None, str | None]] = {}
        self._hashes: dict[str, str] = {}
        self._locks: dict[str, list[Diagnostic]] = {}
        self._measurements: dict[str, Measurement | None] = {}

    def names(self, kind: str) -> list[str]:
        """Names of all specs of a kind, sorted."""
        found = {f.stem for root in self.roots for f in (root / FOLDERS[kind]).glob("*.yaml")}
        return sorted(found)

    def spec(self, kind: str, name: str) -> tuple[Any, list[Diagnostic]]:
        """One typed spec (None when unusable) and its findings. `extends` of a profile is not followed here."""
        if (kind, name) not in self._specs:
            document, problems = self.document(logical(kind, name))
            spec, more = self._typed(KINDS[kind], document, problems)
            self._specs[kind, name] = (spec, [*problems, *more, *_kind_mismatch(document, kind), *name_problems(kind, name)])
        return self._specs[kind, name]

    def document(self, path: str) -> tuple[Document, list[Diagnostic]]:
        """The parsed file behind a logical path, with what is wrong with it as YAML; read once."""
        if path not in self._documents:
            self._documents[path] = self._read(path)
        return self._documents[path]

    def exists(self, path: str) -> bool:
        """True when some root holds the logical path (a broken symlink and a folder count, so that reading explains)."""
        return self._find(path) is not None

    def flags(self, relative: str, place: Place) -> tuple[FlagTable | None, list[Diagnostic]]:
        """The flag table in `specs/engines/<relative>`; a missing or foreign file is a finding at `place`."""
        path = f"specs/engines/{relative}"
        if path not in self._flags:
            text, problem = self._text(path, limit=LONGEST_DATA)
            if text is None:
                return None, [_finding("SPC024", problem or "cannot be read", place, "Without its flag table no command line of this release can be checked.", "Take it with `images/engine/snapshot_flags.py` inside the engine's environment, see CONTRIBUTING.md.")]
            try:
                self._flags[path] = flag_table(path, text)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                return None, [_finding("SPC024", f"{path} is not a flag snapshot: {shown(str(error))}", place, "No command line of this release can be checked.", "Take the snapshot again.")]
        return self._flags[path], []

    def engine_lock(self, relative: str, place: Place) -> tuple[bytes | None, list[Diagnostic]]:
        """The constraints lock in `specs/engines/<relative>`; a missing one is a finding at `place`."""
        path = f"specs/engines/{relative}"
        text, problem = self._text(path, limit=LONGEST_DATA)
        if text is None:
            return None, [_finding("SPC025", problem or "cannot be read", place, "The image would install whatever is newest that day.", "Resolve it with `images/engine/lock_release.py`, see CONTRIBUTING.md.")]
        if path not in self._locks:
            self._locks[path] = [_pasted_secret(path, text, span.start, span.kind) for span in secrets.find_secrets(text)]
        return (None, self._locks[path]) if self._locks[path] else (text.encode(), [])

    def lock(self, profile: str) -> tuple[LockSpec, list[Diagnostic]]:
        """What `podwright lock` resolved for the profile; empty when it was never run."""
        path = f"specs/locks/{profile}.yaml"
        if not self.exists(path):
            return LockSpec.model_validate({}), []
        document, problems = self.document(path)
        spec, more = self._typed(LockSpec, document, problems)
        return spec or LockSpec.model_validate({}), problems + more

    def measurement(self, reference: str, place: Place) -> tuple[Measurement | None, list[Diagnostic]]:
        """The measurement behind `topic/id`; one that does not exist is a finding at `place`."""
        topic, _, record = reference.partition("/")
        if not self.exists(logical("evidence", topic)):
            near = _near(topic, self.names("evidence"))
            return None, [_finding("SPC022", f"no evidence topic `{shown(topic)}`", place, "The choice would rest on nothing.", near)]
        if reference not in self._measurements:
            self._measurements[reference] = self._record_block(topic, record)
        block = self._measurements[reference]
        if block is not None:
            return block, []
        spec, problems = self.spec("evidence", topic)
        if not isinstance(spec, EvidenceSpec):
            return None, problems
        found = next((m for m in spec.records if m.id == record), None)
        if found is None:
            return None, [_finding("SPC022", f"no measurement `{shown(record)}` in topic `{topic}`", place, "The choice would rest on nothing.", _near(record, [m.id for m in spec.records]))]
        return found, []

    def file_hash(self, path: str) -> str:
        """The sha256 of a file that was read."""
        return self._hashes[path]

    def file(self, path: str) -> Path | None:
        """The file behind a logical path that exists."""
        return self._find(path)

    def read_paths(self) -> list[str]:
        """Logical paths of all files read so far."""
        return sorted(self._hashes)

    def locate(self, place: Place, *, on_key: bool = False) -> Position | None:
        """Line and column of a place in a spec that was read."""
        if place.path not in self._documents:
            return None
        document = self._documents[place.path][0]
        return document.position(place.route, on_key=on_key)

    def display(self, path: str) -> str:
        """The path as the user can open it from the working directory."""
        file = self._files.get(path)
        if file is None:
            return path
        try:
            return (file.parent.resolve() / file.name).relative_to(Path.cwd().resolve()).as_posix()
        except (ValueError, OSError, RuntimeError):  # Elsewhere, or behind links that go in circles.
            return file.as_posix()

    def without_echoes(self, problems: list[Diagnostic], more: list[Diagnostic]) -> list[Diagnostic]:
        """`more` without wrong values that are nothing but what `problems` refused to read."""
        refused = {(d.place.path, d.position.line, d.position.column) for d in problems if d.position}
        places = [self.locate(d.place) for d in more]
        return [d for d, at in zip(more, places, strict=True) if d.code != "SPC013" or at is None or (d.place.path, at.line, at.column) not in refused]

    def _record_block(self, topic: str, record: str) -> Measurement | None:
        """Fast path: only the record's own lines are parsed. None when they do not stand out in the text."""
        text, _ = self._text(logical("evidence", topic))
        start = re.search(rf"^  - id: \"?{re.escape(record)}\"?[ ]*$", text or "", re.MULTILINE)
        if text is None or start is None:
            return None
        end = re.compile(r"^  - id:", re.MULTILINE).search(text, start.end())
        block = text[start.start() : end.start() if end else len(text)]
        if "\\" in block or secrets.find_secrets(block):
            return None  # The slow path finds what is hidden here, and says where.
        document, problems = parsed("", block)
        if problems or not document.data:
            return None
        spec, more = validated(Measurement, "", document.data[0])
        return spec if not more else None

    def _find(self, path: str) -> Path | None:
        if path in self._files:
            return self._files[path]
        parts = PurePosixPath(path).parts
        if ".." in parts or max(len(part.encode(errors="replace")) for part in parts) > _LONGEST_PART:
            return None  # A name must not lead out of the folders of specs.
        for root in self.roots:
            file = root.joinpath(*parts[1:])
            if file.exists() or file.is_symlink():
                self._files[path] = file
                return file
        return None

    def _text(self, path: str, limit: int = MAX_BYTES) -> tuple[str | None, str | None]:
        """The text of a logical path, or what stands in the way of reading it; read once."""
        if path not in self._texts:
            self._texts[path] = self._read_text(path, limit)
        return self._texts[path]

    def _read_text(self, path: str, limit: int) -> tuple[str | None, str | None]:
        file = self._find(path)
        if file is None:
            return None, f"{path} does not exist"
        if file.is_dir():
            return None, f"{self.display(path)} is a folder, not a file"
        try:
            if not file.is_file() and file.exists():
                return None, f"{self.display(path)} is not a regular file"
            if file.stat().st_size > limit:
                return None, f"{self.display(path)} has {file.stat().st_size:,} bytes; a spec has at most {limit:,}"
            content = file.read_bytes()
        except FileNotFoundError:
            return None, f"{self.display(path)} is a link to a file that does not exist"
        except OSError as error:
            return None, f"{self.display(path)} cannot be read: {error.strerror}"
        self._hashes[path] = hashlib.sha256(content).hexdigest()
        try:
            return content.decode("utf-8-sig").replace("\r\n", "\n"), None
        except UnicodeDecodeError as error:
            line = content[: error.start].count(b"\n") + 1
            return None, f"{self.display(path)} is not UTF-8 text: byte {error.start} on line {line}"

    def _read(self, path: str) -> tuple[Document, list[Diagnostic]]:
        text, problem = self._text(path)
        empty = Document(path, (), None, {})
        if text is None:
            return empty, [_finding("SPC001", problem or "cannot be read", Place(path), "Nothing in it can be used.", "Save it as UTF-8 text of a page or two.")]
        spans = secrets.find_secrets(text)
        if spans:  # Nothing else of this file is read, so that no later message can echo the secret.
            return empty, [_pasted_secret(path, text, span.start, span.kind) for span in spans]
        escaped = _escaped_secrets(path, text) if "\\" in text else []
        return (empty, escaped) if escaped else parsed(path, text)

    def _typed(self, kind: type[Spec], document: Document, problems: list[Diagnostic]) -> tuple[Any, list[Diagnostic]]:
        """The document as a spec, unless it could not even be read."""
        spec, more = validated(kind, document.path, document.data) if document.data is not None or not problems else (None, [])
        return spec, self.without_echoes(problems, more)


def logical(kind: str, name: str) -> str:
    """The path by which plans and messages name a spec."""
    return f"specs/{FOLDERS[kind]}/{name}.yaml"


def extended(store: SpecStore, name: str) -> tuple[dict[str, Any] | None, dict[Route, str], list[Diagnostic]]:
    """A profile's data with `extends` merged in, the file behind each inherited key, and the findings.

    The mappings in `MERGED` are merged key by key; everything else is replaced whole. `verified` is never inherited:
    a variation has not served just because its parent did.
    """
    chain, problems = _chain(store, name)
    merged: dict[str, Any] = {}
    origins: dict[Route, str] = {}
    for path in reversed(chain):
        data = store.document(path)[0].data
        if not isinstance(data, dict):
            problems += [] if any(d.place.path == path for d in problems) else validated(ProfileSpec, path, data)[1]
            return None, {}, problems
        merged.pop("verified", None)
        for key, value in data.items():
            _merge_key(merged, origins, key, value, path)
    if isinstance(merged.get("extends"), str):
        del merged["extends"]  # Followed already; a value of another type stays, to be refused.
    for key in MERGED & merged.keys():  # A merged section as a whole stands where the nearest profile writes it.
        origins[(key,)] = next(path for path in chain if key in store.document(path)[0].data)
    return (merged if chain else None), {route: path for route, path in origins.items() if path != chain[0]}, problems


def _merge_key(merged: dict[str, Any], origins: dict[Route, str], key: str, value: Any, path: str) -> None:
    before = merged.get(key)
    if key in MERGED and isinstance(value, dict) and isinstance(before, dict):
        merged[key] = before | value
        for inner in value:
            _forget(origins, (key, inner))
            origins[key, inner] = path
        return
    _forget(origins, (key,))
    merged[key] = value
    if key in MERGED and isinstance(value, dict):
        origins.update({(key, inner): path for inner in value})
    else:
        origins[(key,)] = path


def _forget(origins: dict[Route, str], route: Route) -> None:
    for known in [r for r in origins if r[: len(route)] == route]:
        del origins[known]


def _chain(store: SpecStore, name: str) -> tuple[list[str], list[Diagnostic]]:
    """Logical paths from the profile up through `extends`; a cycle or a missing parent ends it with a finding."""
    chain: list[str] = []
    problems: list[Diagnostic] = []
    current: str | None = name
    seen: list[str] = []
    while current is not None:
        path = logical("profile", current)
        document, found = store.document(path)
        problems += found
        chain.append(path)
        seen.append(current)
        parent = document.data.get("extends") if isinstance(document.data, dict) else None
        current = None
        if isinstance(parent, str):
            place = Place(path, ("extends",))
            if parent in seen:
                cycle = " -> ".join([*seen[seen.index(parent) :], parent])
                problems.append(_finding("SPC021", f"`extends` goes in a circle: {cycle}", place, "No profile in the circle has values of its own to start from.", "Let one of them stand alone."))
            elif not is_name(parent) or not store.exists(logical("profile", parent)):
                problems.append(_finding("SPC020", f"no profile `{shown(parent)}` to extend", place, "Inherited values would be missing.", _near(parent, store.names("profile"))))
            else:
                current = parent
    return chain, problems


def missing_reference(store: SpecStore, kind: str, name: str, place: Place) -> Diagnostic:
    """The finding for a name that no spec has, with the nearest that exists."""
    fix = f"Rename {name}.yml to {name}.yaml." if store.exists(logical(kind, name).removesuffix("yaml") + "yml") else _near(name, store.names(kind))
    if kind == "profile" and len(store.roots) == 1:  # Only the shipped ones are looked at, and people forget to name their own.
        fix += " A profile of your own is found with --specs FOLDER (make: SPECS=FOLDER)."
    return _finding("SPC020", f"no {kind} spec `{shown(name)}`", place, "The profile cannot be resolved without it.", fix)


def is_name(name: str) -> bool:
    """True for a text that may name a spec, and so a file and a folder."""
    return _NAME.fullmatch(name) is not None


def name_problems(kind: str, name: str) -> list[Diagnostic]:
    """The finding for a file whose name is not one."""
    if is_name(name):
        return []
    what = f"`{shown(name)}` is not a name: lower-case letters, digits, dots, dashes and underscores, at most 63"
    return [_finding("SPC015", what, Place(logical(kind, name)), "It names files, folders and images, which take no other characters.", "Rename the file.")]


def _near(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    return f"Did you mean `{close[0]}`?" if close else (f"Known: {', '.join(known[:20])}." if known else "There are none yet.")


def _finding(code: str, what: str, place: Place, why: str, fix: str) -> Diagnostic:
    return Diagnostic(code, Severity.ERROR, what, why, fix, place)


def _kind_mismatch(document: Document, kind: str) -> list[Diagnostic]:
    if isinstance(document.data, dict) and isinstance(document.data.get("kind"), str) and document.data["kind"] != kind and document.data["kind"] in KINDS:
        place = Place(document.path, ("kind",))
        return [_finding("SPC014", f"kind `{document.data['kind']}` in a folder of kind `{kind}`", place, "The file would be read as something that it is not.", f"Move it to specs/{FOLDERS[document.data['kind']]}/.")]
    return []


def _unescaped(text: str) -> tuple[str, list[tuple[int, int]]]:
    """`text` with YAML's numeric escapes and continued lines read, and the places (there, here) where the two part."""
    parts: list[str] = []
    moved = [(0, 0)]
    length = end = 0
    for match in _ESCAPE.finditer(text):
        code = match[1] or match[2] or match[3]
        value = chr(int(code, 16)) if code and int(code, 16) < 0x110000 else ""
        parts += [text[end : match.start()], value]
        length += match.start() - end + len(value)
        end = match.end()
        moved.append((length, end))
    return "".join([*parts, text[end:]]), moved


def _escaped_secrets(path: str, text: str) -> list[Diagnostic]:
    """Secrets that show only once YAML's escapes are read."""
    plain, moved = _unescaped(text)
    found = []
    for span in secrets.find_secrets(plain):
        there, here = max(pair for pair in moved if pair[0] <= span.start)
        found.append(_pasted_secret(path, text, here + span.start - there, span.kind))
    return found


def _pasted_secret(path: str, text: str, start: int, kind: str) -> Diagnostic:
    line = text.count("\n", 0, start)
    column = start - (text.rfind("\n", 0, start) + 1)
    what, why, fix = _SECRET
    return Diagnostic("SPC030", Severity.ERROR, what.format(kind=kind), why, fix, Place(path), Position(line + 1, column + 1))
