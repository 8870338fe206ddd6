"""Content blocks that a user's side can hold -> texts and images, whatever they are.

Nothing vanishes: a block that this server cannot use leaves a short text in its place, so that the model knows and an old
session goes on. Only a document that cannot be read is refused, and only in the turn that brings it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, NamedTuple

from pod.bridge.codec import dumps
from pod.bridge.errors import InvalidRequestError
from pod.bridge.pdf import PdfReader, UnreadablePdfError
from pod.bridge.settings import Model

NO_OUTPUT = "(no output)"
ERROR_MARK = "[tool error] "
MAX_DEPTH = 32


class Image(NamedTuple):
    """An image by its address: https or a data URI."""

    url: str


Part = str | Image


class Reader(NamedTuple):
    """How to read content: for which model, and whether it is the turn that the answer is for. `pdf` None: no library."""

    model: Model
    is_last: bool = True
    pdf: PdfReader | None = None


def parts_of(content: Any, route: str, reader: Reader, depth: int = 0) -> Iterator[Part]:
    """The texts and images in a content field, in order and none empty. Raises InvalidRequestError."""
    if depth > MAX_DEPTH:
        raise InvalidRequestError(route, "is nested too deeply")
    if content is None:
        return
    if isinstance(content, str):
        if content:
            yield content
    elif isinstance(content, list):
        for i, block in enumerate(content):
            yield from parts_of(block, f"{route}.{i}", reader, depth + 1)
    elif isinstance(content, dict):
        yield from _block_parts(content, route, reader, depth)
    else:
        raise InvalidRequestError(route, "must be a string or a list of content blocks")


def _block_parts(block: dict[str, Any], route: str, reader: Reader, depth: int) -> Iterator[Part]:
    kind = block.get("type")
    if kind == "text":
        if not isinstance(block.get("text"), str):
            raise InvalidRequestError(f"{route}.text", "must be a string")
        if block["text"]:
            yield block["text"]
    elif kind == "image":
        yield _image(block, route, reader)
    elif kind == "document":
        yield from _document(block, route, reader, depth)
    elif kind == "search_result":
        yield _heading("Search result", block.get("title"), block.get("source"))
        yield from parts_of(block.get("content"), f"{route}.content", reader, depth)
    elif kind == "tool_reference":
        yield f"The tool {block.get('tool_name') or block.get('name') or ''} is available now."
    elif isinstance(kind, str) and kind:
        yield from _other(kind, block, route, reader, depth)
    else:
        raise InvalidRequestError(f"{route}.type", "must be the name of a content block")


def _image(block: dict[str, Any], route: str, reader: Reader) -> Part:
    source = block.get("source")
    if not isinstance(source, dict):
        raise InvalidRequestError(f"{route}.source", "must be an object")
    if reader.model.multimodal is False:
        return "[An image stood here; this model cannot see images.]"
    kind = source.get("type")
    if kind == "url":
        url = _text_field(source, "url", f"{route}.source")
        if not url.lower().startswith(("https://", "http://", "data:image/")):
            # The engine would open a file of its own machine for a client.
            raise InvalidRequestError(f"{route}.image.source.url", "Could not process image: must be an http or https address")
        return Image(url)
    if kind in ("base64", None):
        return _inline_image(source, route)
    return f"[An image by {kind} stood here; this server holds no files.]"


def _inline_image(source: dict[str, Any], route: str) -> Image:
    media_type = source.get("media_type") or "image/png"
    data = _text_field(source, "data", f"{route}.source")
    if not isinstance(media_type, str) or not media_type.startswith("image/"):
        raise InvalidRequestError(f"{route}.image.source.base64.media_type", "Could not process image: must be the type of an image")
    if data.startswith("data:"):  # tools hand on what a browser gave them
        data = data.partition(",")[2]
    if "\n" in data:  # engines take no line breaks
        data = "".join(data.split())
    return Image(f"data:{media_type};base64,{data}")


def _text_field(source: dict[str, Any], key: str, route: str) -> str:
    value = source.get(key)
    if not isinstance(value, str) or not value:
        raise InvalidRequestError(f"{route}.{key}", "must be a non-empty string")
    return value


def _heading(kind: str, *names: Any) -> str:
    known = ", ".join(str(name) for name in names if name)
    return f"[{kind}: {known}]" if known else f"[{kind}]"


def _document(block: dict[str, Any], route: str, reader: Reader, depth: int) -> Iterator[Part]:
    source = block.get("source")
    if not isinstance(source, dict):
        raise InvalidRequestError(f"{route}.source", "must be an object")
    heading = _heading("Document", block.get("title"))
    context = block.get("context")
    kind = source.get("type")
    if kind == "content":
        yield heading
        yield from parts_of(source.get("content"), f"{route}.source.content", reader, depth)
    else:
        text = _document_text(source, route, reader)
        yield "\n".join(filter(None, (heading, context if isinstance(context, str) else "", text)))


def _document_text(source: dict[str, Any], route: str, reader: Reader) -> str:
    kind, media_type = source.get("type"), str(source.get("media_type") or "")
    if kind == "text" or (kind == "base64" and media_type.startswith("text/")):
        data = source.get("data")
        if not isinstance(data, str):
            raise InvalidRequestError(f"{route}.source.data", "must be a string")
        return data if kind == "text" else _decoded(data, route).decode("utf-8", "replace")
    if kind == "base64" and reader.pdf is not None and media_type in ("application/pdf", ""):
        try:
            return reader.pdf(_decoded(_text_field(source, "data", f"{route}.source"), route))
        except InvalidRequestError:
            raise
        except UnreadablePdfError as error:
            problem = str(error)
        except Exception as error:  # a PDF library raises whatever it likes
            problem = f"The PDF specified was not valid ({type(error).__name__})"
    elif kind == "base64":
        what = "PDF input" if media_type == "application/pdf" else f"documents of type {media_type[:100] or 'unknown'}"
        problem = f"this server does not support {what}; send its text instead"
    else:
        problem = f"a document by {kind} is not fetched by this server; send its text instead"
    if reader.is_last:
        # Claude Code finds the block by this route and takes it out of the conversation; else each further turn would be refused.
        raise InvalidRequestError(f"{route}.document", problem)
    return f"({problem})"


def _decoded(data: str, route: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequestError(f"{route}.document.source.data", "is no base64") from None


def _other(kind: str, block: dict[str, Any], route: str, reader: Reader, depth: int) -> Iterator[Part]:
    """Blocks of Anthropic's own servers and of later protocols, as far as their texts go."""
    if kind.endswith("_tool_result") or kind == "tool_result":
        yield f"[Result of {kind.removesuffix('_tool_result')}]"
        content = block.get("content")
        yield from parts_of(content, f"{route}.content", reader, depth) if isinstance(content, (str, list)) else _as_text(content)
    elif kind in ("server_tool_use", "mcp_tool_use"):
        yield f"[{block.get('name') or 'A tool'} was used with {_short(block.get('input'))}]"
    elif kind == "web_search_result":
        yield _heading("Web page", block.get("title"), block.get("url"))
    elif isinstance(block.get("text"), str) and block["text"]:
        yield block["text"]
    elif kind == "compaction" and isinstance(block.get("content"), str):
        yield f"[Summary of the conversation before]\n{block['content']}"
    elif kind not in ("thinking", "redacted_thinking", "tool_addition", "tool_removal"):
        name = block.get("file_id") or block.get("name") or block.get("title") or ""
        yield f"[{kind} {name}".rstrip() + ": not available on this server]"


def _as_text(content: Any) -> Iterator[Part]:
    if content:
        yield _short(content)


def _short(value: Any) -> str:
    return dumps(value).decode()[:2000]


def tool_result_parts(block: dict[str, Any], route: str, reader: Reader) -> tuple[str, list[Image]]:
    """What a tool gave back: one text, never empty, marked where the tool failed, and its images."""
    parts = list(parts_of(block.get("content"), f"{route}.tool_result.content", reader))
    images = [part for part in parts if isinstance(part, Image)]
    text = "\n".join(part for part in parts if isinstance(part, str))
    if images and not text:
        text = "(see the image below)" if len(images) == 1 else f"(see the {len(images)} images below)"
    return (ERROR_MARK if block.get("is_error") is True else "") + (text or NO_OUTPUT), images
