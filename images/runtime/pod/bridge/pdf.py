"""PDFs to text, with a library where one is installed: PyMuPDF, which is some ten times as fast, or pypdf.

No library comes with the bridge, and none is loaded before the first PDF: it would cost every pod memory that few need.
"""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Callable, Iterator
from typing import Any

PdfReader = Callable[[bytes], str]
# Anthropic's own limit; a document beyond it does not fit into a window either.
MAX_PAGES = 600


class UnreadablePdfError(ValueError):
    """A PDF that is one and cannot be read, in the words by which Claude Code tells its user why."""


def pdf_reader() -> PdfReader | None:
    """What turns a PDF into text, page by page; None where no library is installed. It raises UnreadablePdfError, and whatever its
    library raises."""
    for name, texts in (("pymupdf", _by_pymupdf), ("pypdf", _by_pypdf)):
        if importlib.util.find_spec(name) is not None:
            return lambda data, name=name, texts=texts: _joined(texts(importlib.import_module(name), data))  # type: ignore[misc]
    return None


def _joined(texts: Iterator[str]) -> str:
    pages = list(texts)
    if not any(text.strip() for text in pages):
        raise UnreadablePdfError("The PDF specified was not valid: it has no text, its pages are pictures.")
    return "\n\n".join(f"[page {i}]\n{text.strip()}" for i, text in enumerate(pages, 1))


def _by_pymupdf(library: Any, data: bytes) -> Iterator[str]:
    with library.open(stream=data, filetype="pdf") as document:
        _checked(document.needs_pass, document.page_count)
        for page in document:
            yield page.get_text()


def _by_pypdf(library: Any, data: bytes) -> Iterator[str]:
    document = library.PdfReader(io.BytesIO(data))
    if document.is_encrypted and not document.decrypt(""):
        _checked(True, 0)
    _checked(False, len(document.pages))
    for page in document.pages:
        yield page.extract_text()


def _checked(is_locked: Any, pages: int) -> None:
    if is_locked:
        raise UnreadablePdfError("The PDF specified is password protected.")
    if pages > MAX_PAGES:
        raise UnreadablePdfError(f"A maximum of {MAX_PAGES} PDF pages may be provided.")
