"""Folders of specs: what cannot be read, refers to nothing, goes in circles or holds a secret is one finding, never a traceback."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from compiler.diagnostics import Place, formatted
from compiler.load import SpecStore, image_files, load_specset, logical
from compiler.load.codes import CODES
from compiler.load.store import extended, is_name
from compiler.load.yaml_text import MAX_BYTES
from tests.support import ROOT, SPECS
from tests.unit.load.folders import CHILD, codes, loaded, made

HUB_TOKEN = "hf_" + "abcdefghijklmnopqrstuvwxyzABCDEFGH"


def test_a_good_child_loads(tmp_path: Path) -> None:
    specs, problems = loaded(tmp_path, CHILD)
    assert specs is not None
    assert codes(problems) == []
    assert (specs.profile.extends, specs.profile.model, specs.profile.verified) == (None, "nemotron-nvfp4", None)


@pytest.mark.parametrize(("content", "code", "words"), [
    (b"kind: profile\nsummary: \xff\xfe\n", "SPC001", "not UTF-8 text: byte 23 on line 2"),
    ("kind: profile\n".encode("utf-16"), "SPC001", "not UTF-8"),
    (b"a: 1\n" * (MAX_BYTES + 1), "SPC001", "a spec has at most"),
    (b"", "SPC002", "empty"),
    (b"# nothing\n", "SPC002", "empty"),
    (b"---\n...\n", "SPC010", "mapping"),
    (b"null\n", "SPC010", "mapping"),
    (b"- kind: profile\n", "SPC010", "mapping"),
    (b"just text\n", "SPC010", "mapping"),
    (b"42\n", "SPC010", "mapping"),
    (b"kind: profile\nsummary: a\x00b\n", "SPC001", "control characters"),
    (b"kind: model\nsummary: A test.\nextends: nemotron-ada\n", "SPC013", "kind"),
])  # fmt: skip
def test_unusable_files(tmp_path: Path, content: bytes, code: str, words: str) -> None:
    specs, problems = loaded(tmp_path, content)
    assert specs is None
    assert codes(problems) == [code]
    assert words in problems[0].what


def test_bom_and_crlf_are_read(tmp_path: Path) -> None:
    specs, problems = loaded(tmp_path, b"\xef\xbb\xbf" + CHILD.replace("\n", "\r\n").encode() + b"names: no\r\n")
    assert specs is None
    assert [(d.code, d.position and (d.position.line, d.position.column)) for d in problems] == [("SPC006", (4, 8))]


def test_folder_link_and_pipe_in_place_of_a_file(tmp_path: Path) -> None:
    profiles = tmp_path / "profiles"
    (profiles / "folder.yaml").mkdir(parents=True)
    (profiles / "broken.yaml").symlink_to("nowhere.yaml")
    (profiles / "loop.yaml").symlink_to("loop.yaml")
    os.mkfifo(profiles / "pipe.yaml")
    (profiles / "device.yaml").symlink_to("/dev/zero")
    store = SpecStore([tmp_path, SPECS])
    for name, words in {"folder": "is a folder", "broken": "link to a file that does not exist", "loop": "link", "pipe": "not a regular file", "device": "not a regular file"}.items():
        specs, problems = load_specset(store, name)
        assert (specs, codes(problems)) == (None, ["SPC001"])
        assert words in problems[0].what, name


def test_unreadable_file(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root reads everything")
    store = made(tmp_path, {"profiles/mine.yaml": CHILD})
    (tmp_path / "profiles" / "mine.yaml").chmod(0)
    assert codes(load_specset(store, "mine")[1]) == ["SPC001"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "..", "a/b", "/etc/passwd", "Mine", "", ".", "x" * 300, "é", "a\n", "a\x00b", "-x", "$(id)"])
def test_names_never_lead_out_of_the_folders(tmp_path: Path, name: str) -> None:
    (tmp_path.parent / "passwd.yaml").write_text(CHILD)
    specs, problems = load_specset(made(tmp_path, {"profiles/mine.yaml": CHILD}), name)
    assert specs is None
    assert codes(problems) == ["SPC020"]
    assert not is_name(name)


def test_badly_named_file_is_refused(tmp_path: Path) -> None:
    specs, problems = loaded(tmp_path, CHILD, name="My Profile")
    assert specs is None
    assert codes(problems) == ["SPC015"]


def test_yml_is_pointed_out(tmp_path: Path) -> None:
    made(tmp_path, {"profiles/mine.yml": CHILD})
    problems = load_specset(SpecStore([tmp_path, SPECS]), "mine")[1]
    assert problems[0].fix == "Rename mine.yml to mine.yaml."


@pytest.mark.parametrize(("line", "near"), [("model: nemotron-nvfp44", "nemotron-nvfp4"), ("hardware: rtx-6000-adaa", "rtx-6000-ada"), ("engine: vllm-0.27.2", "vllm-0.27.1")])
def test_missing_reference_names_the_nearest(tmp_path: Path, line: str, near: str) -> None:
    specs, problems = loaded(tmp_path, f"{CHILD}{line}\n")
    assert specs is None
    assert codes(problems) == ["SPC020"]
    assert problems[0].fix == f"Did you mean `{near}`?"
    assert (problems[0].position.line, problems[0].position.column) == (4, len(line.split()[0]) + 2)  # type: ignore[union-attr]


def test_missing_parent(tmp_path: Path) -> None:
    _, problems = loaded(tmp_path, CHILD.replace("nemotron-ada", "nemotron-adda"))
    assert problems[0].code in ("SPC012", "SPC020")
    (missing,) = [d for d in problems if d.code == "SPC020"]
    assert missing.fix == "Did you mean `nemotron-ada`?"


@pytest.mark.parametrize("parent", ["[nemotron-ada]", "5", "{a: b}", "true", "null"])
def test_extends_of_a_wrong_type_is_not_ignored(tmp_path: Path, parent: str) -> None:
    specs, problems = loaded(tmp_path, CHILD.replace("nemotron-ada", parent))
    assert specs is None
    assert parent == "null" or any(d.code == "SPC013" and "extends" in d.what for d in problems)


@pytest.mark.parametrize("parent", ["../profiles/nemotron-ada", "Nemotron", "a/b", '"a\\0b"', '"\\e[31m"'])
def test_extends_of_a_wrong_form(tmp_path: Path, parent: str) -> None:
    specs, problems = loaded(tmp_path, CHILD.replace("nemotron-ada", parent))
    assert specs is None
    assert "SPC020" in codes(problems)
    assert all(line.isprintable() for d in problems for line in formatted(d).splitlines())


def test_circles_are_shown(tmp_path: Path) -> None:
    text = "kind: profile\nsummary: A test.\nextends: {}\n"
    _, problems = loaded(tmp_path, text.format("b"), name="a", profiles__b=text.format("c"), profiles__c=text.format("a"))
    assert [d.what for d in problems if d.code == "SPC021"] == ["`extends` goes in a circle: a -> b -> c -> a"]
    _, problems = loaded(tmp_path, text.format("self"), name="self")
    assert [d.what for d in problems if d.code == "SPC021"] == ["`extends` goes in a circle: self -> self"]


def test_a_long_chain_of_parents_is_followed(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"profiles/p0.yaml": CHILD}
    files |= {f"profiles/p{i}.yaml": f"kind: profile\nsummary: A test.\nextends: p{i - 1}\n" for i in range(1, 400)}
    specs, problems = load_specset(made(tmp_path, files), "p399")
    assert specs is not None
    assert problems == []


def test_merging_keeps_the_file_of_each_key(tmp_path: Path) -> None:
    store = made(tmp_path, {
        "profiles/parent.yaml": CHILD + "settings: {max_num_seqs: 8, block_size: 16}\nsecrets: []\n",
        "profiles/mine.yaml": "kind: profile\nsummary: Mine.\nextends: parent\nsettings: {max_num_seqs: 9}\n",
    })  # fmt: skip
    merged, origins, problems = extended(store, "mine")
    assert merged is not None
    assert problems == []
    assert (merged["settings"]["max_num_seqs"], merged["settings"]["block_size"], merged["secrets"], "verified" in merged) == (9, 16, (), False)
    assert origins["settings", "block_size"] == origins[("secrets",)] == logical("profile", "parent")
    assert origins["settings", "max_model_len"] == origins[("deploy",)] == logical("profile", "nemotron-ada")
    assert ("settings", "max_num_seqs") not in origins
    assert ("settings",) not in origins


def test_finding_in_a_parent_points_into_the_parent(tmp_path: Path) -> None:
    specs, problems = loaded(tmp_path, "kind: profile\nsummary: Mine.\nextends: parent\n", profiles__parent=CHILD + "settings: {max_num_seqs: -1}\n")
    assert specs is None
    assert [(d.code, Path(d.place.path).name, d.position and (d.position.line, d.position.column)) for d in problems] == [("SPC013", "parent.yaml", (4, 26))]


def test_swap_members(tmp_path: Path) -> None:
    specs, problems = loaded(tmp_path, f"{CHILD}swap: {{members: [nowhere, mine]}}\n")
    assert specs is None
    assert codes(problems) == ["SPC020"]
    specs, problems = loaded(tmp_path, f"{CHILD}swap: {{members: [mine]}}\n")
    assert specs is not None
    assert [m.swap for m in specs.swap] == [()]


@pytest.mark.parametrize("reference", ["nowhere/x", "nemotron-ada/nowhere"])
def test_missing_evidence(tmp_path: Path, reference: str) -> None:
    specs, problems = loaded(tmp_path, f"{CHILD}settings: {{max_num_seqs: {{value: 8, reason: A test., evidence: [{reference}]}}}}\n")
    assert specs is None
    assert codes(problems) == ["SPC022"]
    assert problems[0].position
    assert (problems[0].position.line, problems[0].position.text[problems[0].position.column - 1 :]) == (4, f"{reference}]}}}}")


def engine_with(old: str, new: str) -> str:
    return (SPECS / "engines" / "vllm-0.27.1.yaml").read_text("utf-8").replace(old, new)


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"nonsense", b'{"format": 99}', b'{"format": 1}', b"\xff", b"[" * 100_000, b'{"format": 1, "flags": {"a": 5}, "configs": {}, "registries": {}}'])
def test_broken_flag_snapshot(tmp_path: Path, content: bytes) -> None:
    specs, problems = loaded(tmp_path, CHILD, **{"engines__vllm-0.27.1": engine_with("flags/vllm-0.27.1.json", "flags/mine.json")})
    assert codes(problems) == ["SPC024"]
    (tmp_path / "engines" / "flags").mkdir()
    (tmp_path / "engines" / "flags" / "mine.json").write_bytes(content)
    specs, problems = load_specset(SpecStore([tmp_path, SPECS]), "mine")
    assert specs is None
    assert codes(problems) == ["SPC024"]


def test_missing_engine_lock(tmp_path: Path) -> None:
    lock = re.search(r"^lock: (.+)$", engine_with("", ""), re.MULTILINE)
    assert lock
    specs, problems = loaded(tmp_path, CHILD, **{"engines__vllm-0.27.1": engine_with(lock[1], "locks/none.txt")})
    assert specs is None
    assert codes(problems) == ["SPC025"]


def test_all_problems_at_once(tmp_path: Path) -> None:
    specs, problems = loaded(tmp_path, "kind: profile\nsummmary: A test.\nmodel: nowhere\nhardware: nowhere\nengine: nowhere\ncontainer: {recipe: x}\nswap: {members: []}\n")
    assert specs is None
    assert sorted(codes(problems)) == ["SPC011", "SPC012", "SPC013", "SPC013", "SPC020", "SPC020", "SPC020"]


SECRET_FORMS = {
    "value": f"summary: {HUB_TOKEN}\n",
    "key": f"env: {{{HUB_TOKEN}: x}}\n",
    "comment": f"# {HUB_TOKEN}\n",
    "list": f"notes: [a, {HUB_TOKEN}]\n",
    "text over several lines": f"notes:\n  - |\n    one\n    {HUB_TOKEN}\n",
    "escaped letters": 'summary: "hf_\\x61bcdefghijklmnopqrstuvwxyzABCDEFGH"\n',
    "escaped key": 'env: {"hf_\\u0061bcdefghijklmnopqrstuvwxyzABCDEFGH": x}\n',
    "continued line": f'summary: "{HUB_TOKEN[:12]}\\\n  {HUB_TOKEN[12:]}"\n',
    "assignment": "env: {API_KEY: abcdefghij0123456789abcd}\n",
    "address": "notes: ['https://me:correct-horse-battery@example.invalid/x']\n",
    "private key": "notes:\n  - |\n    -----BEGIN OPENSSH PRIVATE KEY-----\n    b3BlbnNzaC1rZXktdjEAAAAABG5vbmU\n    -----END OPENSSH PRIVATE KEY-----\n",
    "broken file": f"summary: {HUB_TOKEN}\n\tx: [\n",
}
SECRET_WORDS = (HUB_TOKEN, HUB_TOKEN[12:], "bcdefghijklmnopqrstuvwxyzABCDEFGH", "abcdefghij0123456789abcd", "correct-horse-battery", "b3BlbnNzaC1rZXktdjEAAAAABG5vbmU")


@pytest.mark.parametrize("form", SECRET_FORMS)
def test_secret_is_refused_and_not_echoed(tmp_path: Path, form: str) -> None:
    specs, problems = loaded(tmp_path, CHILD + SECRET_FORMS[form])
    assert specs is None
    assert set(codes(problems)) == {"SPC030"}
    printed = "\n".join([formatted(d) for d in problems] + [str(d.to_json()) for d in problems])
    assert not [word for word in SECRET_WORDS if word in printed]


@pytest.mark.parametrize("kind", ["models__nemotron-nvfp4", "hardware__rtx-6000-ada", "engines__vllm-0.27.1", "evidence__nemotron-ada", "locks__mine"])
def test_secret_in_any_kind_of_file(tmp_path: Path, kind: str) -> None:
    shipped = SPECS / f"{kind.replace('__', '/')}.yaml"
    text = shipped.read_text("utf-8") if shipped.exists() else "kind: lock\n"
    hidden = f'    caveat: "\\x68{HUB_TOKEN[1:]}"\n' if kind.startswith("evidence") else f"# {HUB_TOKEN}\n"
    specs, problems = loaded(tmp_path, CHILD, **{kind: text + hidden})
    used = kind != "evidence__nemotron-ada"
    assert ("SPC030" in codes(problems)) is (used or specs is None)
    assert HUB_TOKEN not in "\n".join(formatted(d) for d in problems)


def test_secret_in_a_cited_measurement(tmp_path: Path) -> None:
    evidence = f"kind: evidence\ntopic: mine\nsummary: A test.\nrecords:\n  - id: one\n    date: \"2026-08\"\n    metric: x\n    value: 1\n    source: {HUB_TOKEN}\n"
    specs, problems = loaded(tmp_path, CHILD + "settings: {max_num_seqs: {value: 8, reason: A test., evidence: [mine/one]}}\n", evidence__mine=evidence)
    assert specs is None
    assert codes(problems) == ["SPC030"]


def test_secret_in_an_engine_lock(tmp_path: Path) -> None:
    lock = re.search(r"^lock: (.+)$", engine_with("", ""), re.MULTILINE)
    assert lock
    (tmp_path / "engines" / lock[1]).parent.mkdir(parents=True)
    (tmp_path / "engines" / lock[1]).write_text("--extra-index-url https://me:correct-horse-battery@example.invalid/simple\nvllm==0.27.1\n")
    specs, problems = loaded(tmp_path, CHILD)
    assert specs is None
    assert codes(problems) == ["SPC030"]
    assert "correct-horse" not in "\n".join(formatted(d) for d in problems)


def test_own_folder_wins_over_shipped_specs(tmp_path: Path) -> None:
    store = made(tmp_path, {"profiles/nemotron-ada.yaml": "kind: profile\nsummary: Mine.\nextends: ornith-2xa40\n"})
    specs, _ = load_specset(store, "nemotron-ada")
    assert specs is not None
    assert specs.profile.summary == "Mine."
    assert store.names("profile").count("nemotron-ada") == 1


def test_display_is_relative_to_where_the_user_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = made(tmp_path, {"profiles/mine.yaml": CHILD})
    store.document(logical("profile", "mine"))
    monkeypatch.chdir(tmp_path)
    assert store.display(logical("profile", "mine")) == "profiles/mine.yaml"
    monkeypatch.chdir("/")
    assert store.display(logical("profile", "mine")) == (tmp_path / "profiles" / "mine.yaml").as_posix().lstrip("/")
    assert store.display("specs/none.yaml") == "specs/none.yaml"


def test_inputs_are_the_files_that_were_read() -> None:
    store = SpecStore([SPECS])
    specs, _ = load_specset(store, "ornith-2xa40-dspark")
    assert specs is not None
    paths = [path for path, _ in specs.inputs]
    assert paths == sorted(paths)
    assert {"specs/profiles/ornith-2xa40-dspark.yaml", "specs/profiles/ornith-2xa40.yaml", "specs/models/ornith-awq.yaml", "specs/hardware/2xa40.yaml", "specs/engines/vllm-0.27.1.yaml"} <= set(paths)
    assert all(len(sha) == 64 for _, sha in specs.inputs)
    assert set(paths) <= set(store.read_paths())


def test_image_files_leave_caches_and_hidden_files_out(tmp_path: Path) -> None:
    for name in ("a.sh", ".hidden", "x/__pycache__/a.pyc", ".git/config", "x/b.py"):
        (tmp_path / "images" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "images" / name).write_text(name)
    assert image_files(tmp_path) == {"a.sh": b"a.sh", "x/b.py": b"x/b.py"}
    assert "bootstrap/lib.sh" in image_files(ROOT)


def test_every_code_that_loading_gives_is_documented() -> None:
    used = {code for file in (ROOT / "compiler").rglob("*.py") if file.name != "codes.py" for code in re.findall(r'"((?:SPC|CMD|CKP|PLN|TGT)[0-9]{3})"', file.read_text("utf-8"))}
    assert used == set(CODES)


def test_measurement_of_an_unknown_topic() -> None:
    found, problems = SpecStore([SPECS]).measurement("../x/y", Place("p"))
    assert (found, codes(problems)) == (None, ["SPC022"])
