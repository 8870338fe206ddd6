"""The page that says of each recorded trap and failure where podwright meets it: by which code, proved by which test.

``tests/cases/traps_covered.yaml`` is the record: an id, and what answers it. An answer is a rule's code, a test
(``FILE::FUNCTION`` below ``tests/``), a recorded case, or an entry of ``docs/practice.md`` for what no program can check.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from compiler.lint.pages import summary
from compiler.lint.registry import RegisteredRule, rule_by_code

RECORD = Path("tests/cases/traps_covered.yaml")
PRACTICE = Path("docs/practice.md")
PAGE = "docs/coverage.md"
# Where a test's subject lives: prefix of the test below tests/, the part of podwright, the folder of its code.
_PARTS = (
    ("unit/pod/bridge", "bridge", "images/runtime/pod/bridge"),
    ("cases/bridge", "bridge", "images/runtime/pod/bridge"),
    ("unit/pod/watchdog", "supervisor", "images/runtime/pod/watchdog"),
    ("unit/pod", "supervisor", "images/runtime/pod"),
    ("integration/test_pod", "supervisor", "images/runtime/pod/supervisor"),
    ("integration/test_desktop", "supervisor", "images/runtime/pod/desktop.py"),
    ("integration/test_shell", "bootstrap", "images/bootstrap"),
    ("integration/test_docker_image", "image", "images/finish"),
    ("unit/render/test_bootstrap", "bootstrap", "images/bootstrap"),
    ("unit/deploy", "deploy client", "compiler/deploy"),
    ("cases/explain", "explainer", "compiler/explaining_log.py"),
    ("unit/", "compiler", "compiler"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Cover:
    """One answer to one trap: our words, the part of podwright, its code and its proof, both as paths from the checkout."""

    words: str
    part: str
    code: str
    proof: str


def record(root: Path) -> dict[str, list[str]]:
    """All ids with their answers, in the order of the record; raises ``OSError`` where there is no checkout."""
    loaded: dict[str, list[str]] = yaml.safe_load((root / RECORD).read_text("utf-8"))
    return loaded


def practices(root: Path) -> dict[str, str]:
    """The entries of the page of practices: id to sentence."""
    return dict(re.findall(r"^- \*\*`([^`]+)`\*\*: (.+)$", (root / PRACTICE).read_text("utf-8"), re.MULTILINE))


def covers(root: Path) -> Iterator[tuple[str, Cover]]:
    """Each trap with each of its answers; raises ``KeyError`` for an answer that names nothing."""
    sentences = practices(root)
    for trap, answers in record(root).items():
        for answer in answers:
            yield trap, _cover(root, trap, answer, sentences)


def pages(root: Path) -> dict[str, str]:
    """The page by its path; none in an installed package, which has neither tests nor pages."""
    return {PAGE: coverage_page(root)} if (root / RECORD).is_file() else {}


def coverage_page(root: Path) -> str:
    """The page as Markdown."""
    rows = list(covers(root))
    counts: dict[str, set[str]] = {}
    for trap, cover in rows:
        counts.setdefault(cover.part, set()).add(trap)
    parts = [f"| {part} | {len(traps)} |" for part, traps in sorted(counts.items(), key=lambda item: -len(item[1]))]
    head = [
        "# What meets which trap", "",
        f"{len(record(root))} recorded traps and failures, and what meets each: a rule before anything is rented, the program in the pod,",
        "the client that rents, the explainer afterwards, or, where no program can check it, a sentence in [practice](practice.md).",
        "One may be met in several places. This page is made from `tests/cases/traps_covered.yaml`; tests prove that everything it names",
        "exists.", "",
        "| part | traps |", "|---|---|", *parts, "",
        "| trap | what holds | part | code | proof |", "|---|---|---|---|---|",
    ]  # fmt: skip
    return "\n".join([*head, *(_row(trap, cover) for trap, cover in rows)]) + "\n"


def _row(trap: str, cover: Cover) -> str:
    file, _, function = cover.proof.partition("::")
    proof = f"[{function or file.rpartition('/')[2]}](../{file})"
    words = cover.words.replace("|", "\\|")
    return f"| `{trap}` | {words} | {cover.part} | [{cover.code.rpartition('/')[2]}](../{cover.code}) | {proof} |"


def _cover(root: Path, trap: str, answer: str, sentences: dict[str, str]) -> Cover:
    if answer == PRACTICE.as_posix():
        return Cover(sentences[trap], "practice", answer, "tests/unit/test_coverage.py::test_every_practice_is_a_sentence_of_its_page")
    if "/" not in answer:
        registered = rule_by_code(answer)
        if registered is None:
            raise KeyError(answer)
        return Cover(summary(registered.page), "rule", _rule_file(registered), f"tests/cases/rules/{answer}.yaml")
    part, code = _subject(root, answer)
    return Cover(_words(answer), part, code, f"tests/{answer}")


def _rule_file(registered: RegisteredRule) -> str:
    return str(registered.module.__name__).replace(".", "/") + ".py"


def _words(answer: str) -> str:
    """A test's name is the sentence that it proves."""
    file, _, function = answer.partition("::")
    if not function:
        return f"Recorded case {file.rpartition('/')[2].removesuffix('.yaml')}."
    return function.removeprefix("test_").replace("_", " ").capitalize() + "."


def _subject(root: Path, answer: str) -> tuple[str, str]:
    """The part of podwright that a test is about, and the most exact code that lies where the test mirrors it."""
    file = answer.partition("::")[0]
    part, folder = next((part, code) for prefix, part, code in _PARTS if file.startswith(prefix))
    if not file.startswith("unit/"):
        return part, folder
    below = Path(file).relative_to("unit")
    mirrored = Path("images/runtime" if below.parts[0] == "pod" else "compiler") / below.with_name(below.name.removeprefix("test_"))
    choices = (mirrored, mirrored.with_suffix(""), mirrored.parent)
    return part, next((c.as_posix() for c in choices if (root / c).exists()), folder)
