"""PDFs: which library reads them, and what cannot be read. The libraries themselves are played, but where they are installed."""

from __future__ import annotations

import base64
import importlib.util
import sys
import types
from typing import Any

import pytest
from pod.bridge import pdf
from pod.bridge.errors import InvalidRequestError
from pod.bridge.pdf import UnreadablePdfError, pdf_reader

from tests.unit.pod.bridge.test_requests import translated


def one_page(text: str) -> bytes:
    """A PDF of one page, written by hand."""
    shown = f"BT /F1 12 Tf 20 100 Td ({text}) Tj ET".encode()
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
               b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
               b"<</Length %d>>stream\n%b\nendstream" % (len(shown), shown), b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"]  # fmt: skip
    data, places = b"%PDF-1.4\n", []
    for i, body in enumerate(objects, 1):
        places.append(len(data))
        data += b"%d 0 obj%b endobj\n" % (i, body)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    return data + b"xref\n0 6\n0000000000 65535 f \n%btrailer<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (table, len(data))


class Page:
    def __init__(self, text: str) -> None:
        self.text = text

    def get_text(self) -> str:
        return self.text

    extract_text = get_text


class Document:
    """What both libraries give, as far as it is used here; the bytes are the pages, parted by bars."""

    def __init__(self, stream: Any, filetype: str = "pdf") -> None:
        data = stream if isinstance(stream, bytes) else stream.read()
        if data == b"broken":
            raise RuntimeError("no objects found")
        self.needs_pass = self.is_encrypted = data == b"locked"
        self.pages = [Page(text) for text in data.decode().split("|")]
        self.page_count = len(self.pages)

    def decrypt(self, _: str) -> int:
        return 0

    def __enter__(self) -> Document:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def __iter__(self) -> Any:
        return iter(self.pages)


@pytest.fixture(params=["pymupdf", "pypdf"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """One of the libraries is installed, and nobody has loaded it."""
    name: str = request.param
    module = types.ModuleType(name)
    vars(module).update(open=Document, PdfReader=Document)
    monkeypatch.setattr(importlib.util, "find_spec", lambda wanted: object() if wanted == name else None)
    monkeypatch.setattr(importlib, "import_module", lambda wanted: {name: module}[wanted])
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def test_pages_become_text(library: str) -> None:
    read = pdf_reader()
    assert read is not None and library not in sys.modules
    assert read(b"first |second\n") == "[page 1]\nfirst\n\n[page 2]\nsecond"


def document(data: bytes, **source: Any) -> dict[str, Any]:
    return {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": base64.b64encode(data).decode(), **source}}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"locked", "The PDF specified is password protected"),
        (b" |", "The PDF specified was not valid: it has no text"),
        (b"|".join([b"x"] * (pdf.MAX_PAGES + 1)), f"A maximum of {pdf.MAX_PAGES} PDF pages may be provided"),
        (b"broken", "The PDF specified was not valid (RuntimeError)"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_words_that_clients_know(library: str, data: bytes, says: str) -> None:
    block = document(data)
    with pytest.raises(InvalidRequestError) as caught:
        translated(pdf=pdf_reader(), messages=[{"role": "user", "content": [block]}])
    assert caught.value.message.startswith(f"messages.0.content.0.document: {says}")
    later = translated(pdf=pdf_reader(), messages=[{"role": "user", "content": [block]}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}])
    assert says in later.body["messages"][0]["content"]


def test_other_files_are_not_taken_for_pdfs(library: str) -> None:
    with pytest.raises(InvalidRequestError, match="documents of type application/zip"):
        translated(pdf=pdf_reader(), messages=[{"role": "user", "content": [document(b"x", media_type="application/zip")]}])


def test_without_a_library_there_is_no_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    assert pdf_reader() is None


@pytest.mark.skipif(pdf_reader() is None, reason="neither pymupdf nor pypdf is installed")
def test_a_real_library_reads_a_real_pdf() -> None:
    read = pdf_reader()
    assert read is not None and read(one_page("Hello from page one")) == "[page 1]\nHello from page one"
    with pytest.raises(UnreadablePdfError):
        read(one_page(""))
    with pytest.raises(Exception, match=r".+"):
        read(b"%PDF-1.4 and nothing more")
