"""Generated pages name every field and code, and fill only what stands between a README's markers."""

from __future__ import annotations

import re

from compiler.documents import _filled, pages
from compiler.load import SpecStore
from compiler.load.codes import CODES
from compiler.schemas import KINDS_WITH_SCHEMA
from tests.support import SPECS

README = "# X\n\n<!-- begin profiles -->\nold\n<!-- end profiles -->\nmiddle\n<!-- begin report -->\n<!-- end report -->\nend\n"
STORE = SpecStore([SPECS])
PAGES = pages(STORE, README)


def test_every_field_of_every_spec_has_its_row() -> None:
    for kind, model in KINDS_WITH_SCHEMA.items():
        page = PAGES[f"docs/specs/{kind}.md"]
        assert [key for key in model.model_fields if f"| `{key}` |" not in page] == []


def test_tables_are_whole() -> None:
    for path, page in PAGES.items():
        for block in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE):
            cells = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(cells) == 1, f"{path}: {block.splitlines()[0]}"


def test_links_inside_a_page_lead_somewhere() -> None:
    for path, page in PAGES.items():
        anchors = {heading.lower().replace(" ", "-") for heading in re.findall(r"^#+ (.+)$", page, re.MULTILINE)}
        assert [link for link in re.findall(r"\]\(#([a-z0-9-]+)\)", page) if link not in anchors] == [], path


def test_codes_of_reading_are_listed() -> None:
    assert [code for code in CODES if f"| {code} |" not in PAGES["docs/rules/reading.md"]] == []


def test_readme_is_filled_between_its_markers_only() -> None:
    text = PAGES["README.md"]
    assert text.startswith("# X\n\n<!-- begin profiles -->\n| profile |")
    assert "\n<!-- end profiles -->\nmiddle\n<!-- begin report -->\n```console\n" in text
    assert text.endswith("```\n<!-- end report -->\nend\n")
    assert "old" not in text
    assert [name for name in STORE.names("profile") if f"| `{name}` |" not in text] == []


def test_a_text_without_markers_stays() -> None:
    assert _filled("nothing", {"profiles": "x"}) == "nothing"


def test_pages_are_the_same_twice() -> None:
    assert pages(SpecStore([SPECS]), README) == PAGES
