"""Errors: what the bridge answers, in Anthropic's shape, and what an engine's answers become.

ApiError                 anything that a client is told; carries status, type, headers
  UnconnectedError       503: the engine takes no connection, so that the request can be sent later
  CutOffError            502: the engine's answer ended too early
  InvalidRequestError    400: the request, named by its route (`messages.1.content.0.id: ...`)

The engine's own words are kept. Two of them are put in front of what Claude Code looks for to compact a conversation: see
`overflow_of`. Texts are cut at 4 KiB, and `redacted` takes secrets out.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pod.bridge import sse
from pod.bridge.codec import BadJsonError, dumps, loads

TYPE_OF_STATUS = {
    400: "invalid_request_error", 401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
    413: "request_too_large", 422: "invalid_request_error", 429: "rate_limit_error", 500: "api_error", 502: "api_error",
    503: "overloaded_error", 504: "timeout_error", 529: "overloaded_error",
}  # fmt: skip
STATUS_OF_TYPE = {
    "invalid_request_error": 400, "authentication_error": 401, "billing_error": 402, "permission_error": 403, "not_found_error": 404,
    "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "overloaded_error": 529, "timeout_error": 504,
}  # fmt: skip
MAX_TEXT = 4096
# SDKs obey a delay of up to 60 s; five seconds is what a queue of a busy engine usually needs.
RETRY_AFTER_S = 5
# An answer shorter than this is not worth asking for again with a lowered max_tokens.
USEFUL_TOKENS = 1024


class ApiError(Exception):
    """An error for a client. `retry_after` in seconds or as the engine wrote it; `should_retry` None leaves it to the SDK."""

    def __init__(self, status: int, message: str, *, kind: str | None = None, retry_after: str | int | None = None,
                 should_retry: bool | None = None) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.kind = kind or TYPE_OF_STATUS.get(status) or ("api_error" if status >= 500 else "invalid_request_error")
        self.message = message
        self.retry_after = retry_after
        self.should_retry = should_retry

    def payload(self, request_id: str | None = None) -> dict[str, Any]:
        """The body of an answer and the data of an error event."""
        body: dict[str, Any] = {"type": "error", "error": {"type": self.kind, "message": self.message}}
        return body if request_id is None else {**body, "request_id": request_id}

    def body(self, request_id: str | None = None) -> bytes:
        """The payload as JSON."""
        return dumps(self.payload(request_id))

    def headers(self) -> dict[str, str]:
        """What tells SDKs whether and when to repeat."""
        found = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        if self.should_retry is not None:
            found["x-should-retry"] = "true" if self.should_retry else "false"
        return found

    def frame(self, request_id: str | None = None) -> bytes:
        """The error event that ends a stream."""
        return sse.frame("error", self.payload(request_id))


class UnconnectedError(ApiError):
    """The engine takes no connection: it starts, restarts or swaps. Nothing was sent to it, so that asking again does no harm."""

    def __init__(self) -> None:
        super().__init__(503, "The engine does not answer; it may be starting.", retry_after=RETRY_AFTER_S, should_retry=True)


class CutOffError(ApiError):
    """502: the engine's answer ended, and that is all that is known."""


class DeadEngineError(ApiError):
    """503: the engine's core has died. Its server goes on for some seconds, and tells so whoever asks it."""


class InvalidRequestError(ApiError):
    """A request that cannot be understood. `route` is where in the body, as the API's own messages write it."""

    def __init__(self, route: str, problem: str) -> None:
        super().__init__(400, f"{route}: {problem}" if route else problem)
        self.route = route


def unreachable() -> ApiError:
    """The engine ended the connection before it answered, in the middle of a request that is not sent again: it may be the cause."""
    text = "The engine ended the connection without an answer; it may be restarting."
    return ApiError(503, text, retry_after=RETRY_AFTER_S, should_retry=True)


def not_serving(about: str, retry_after_s: int) -> ApiError:
    """The supervisor says that the engine does not serve, and why."""
    return ApiError(529, f"The engine does not serve now: {about}", retry_after=retry_after_s, should_retry=True)


def saturated() -> ApiError:
    """The bridge holds as many requests as it may."""
    return ApiError(529, "Too many requests at once on this server.", retry_after=RETRY_AFTER_S, should_retry=True)


def silent(seconds: float) -> ApiError:
    """The engine sent nothing for longer than the limit."""
    return ApiError(504, f"The engine sent nothing for {seconds:g} s.")


def empty() -> ApiError:
    """The engine answered 200 and closed without a byte."""
    return ApiError(502, "The engine closed the stream without an answer.")


def cut_off() -> CutOffError:
    """The engine's stream ended in the middle of an answer."""
    return CutOffError(502, "The engine's stream ended before the answer was complete.")


def too_large(limit: int) -> ApiError:
    """A body over the limit of this server, in bytes."""
    return ApiError(413, f"The request is larger than this server's limit of {limit} bytes.")


@dataclasses.dataclass(frozen=True)
class Overflow:
    """A prompt and an answer that do not fit, all in tokens.

    `exact` False: the engine stopped counting the prompt there, as 0.27.1 always does. Its tokenizer has to be asked then, or
    a client would lower max_tokens where only a shorter prompt can help.
    """

    window: int
    prompt: int
    asked: int
    exact: bool

    def counted(self, prompt: int) -> Overflow:
        """The same with the prompt as a tokenizer counted it."""
        return dataclasses.replace(self, prompt=prompt, exact=True)

    def lowered(self) -> int | None:
        """The answer that still fits; None where too little is left to be of use, or where the prompt is not known exactly."""
        room = self.window - self.prompt
        return room if self.exact and min(self.asked, USEFUL_TOKENS) <= room < self.asked else None

    def wording(self) -> str:
        """The words that clients act upon."""
        if self.prompt > self.window or not self.asked:
            return f"prompt is too long: {self.prompt} tokens > {self.window} maximum"
        return f"input length and `max_tokens` exceed context limit: {self.prompt} + {self.asked} > {self.window}"


_WINDOW = re.compile(r"maximum (?:context|model) length (?:is |of |\()?(\d+)|context length (?:is only |is |\()?(\d+)"
                     r"|maximum input length of (\d+) tokens|max_model_len=(?:max_total_tokens=)?(\d+)")  # fmt: skip
_PROMPT = (re.compile(r"prompt contains (at least )?(\d+) input tokens"), re.compile(r"has (at least )?(\d+) input tokens"),
           re.compile(r"resulted in (at least )?(\d+) tokens"), re.compile(r"\((at least )?(\d+) in the messages"),
           re.compile(r"upper bound for (\d+)()"),
           re.compile(r"prompt \((?:total )?length (at least )?(\d+)\)"), re.compile(r"input \((at least )?(\d+) tokens\)"),
           re.compile(r"passed (at least )?(\d+) input tokens"), re.compile(r"(at least )?\b(\d+) tokens from the input"),
           re.compile(r"(?:Input|Prompt) length (?:is )?\(?(at least )?(\d+)"),
           re.compile(r"requested (at least )?(\d+) tokens"))  # fmt: skip
_ASKED = re.compile(r"requested (\d+) output tokens|too large: (\d+)|(\d+) in the completion|(\d+) tokens for the completion"
                    r"|max(?:_completion)?_tokens=(\d+) cannot be greater")  # fmt: skip


def overflow_of(text: str) -> Overflow | None:
    """The overflow that an engine's message tells of: the wordings of vLLM 0.27.1 and of earlier releases."""
    window = _WINDOW.search(text)
    if window is None:
        return None
    limit = int(next(group for group in window.groups() if group))
    asked = _ASKED.search(text)
    output = int(next(group for group in asked.groups() if group)) if asked else 0
    for pattern in _PROMPT:
        if found := pattern.search(text):
            if pattern.pattern.startswith("upper"):
                return Overflow(limit, max(int(found[1]), limit) + 1, output, exact=False)
            return Overflow(limit, int(found[2]), output, exact=not found[1])
    # An answer longer than the whole window is refused before the prompt is looked at: at least one token is in it.
    return Overflow(limit, 1, output, exact=False) if output > limit else None


def refuses_budget(status: int, text: str) -> bool:
    """Whether an engine refused a request for its `thinking_token_budget`: no reasoning parser, or the V2 runner."""
    return status == 400 and "thinking_token_budget" in text


# What vLLM says of a model without eyes, of more images than it takes, and of an image that cannot be read.
_IMAGE = re.compile(r"not a multimodal model|At most \d+ (?:image|video)|cannot identify image|[Ff]ailed to (?:load|open|decode|fetch) image"
                    r"|image file is truncated|does not support (?:image|multimodal)")  # fmt: skip


def told_of_media(text: str) -> str:
    """The engine's words about an image that it does not take, behind the ones that make Claude Code take it out of the conversation:
    without them it sends the image with every further turn, and each one is refused."""
    return f"Could not process image: {text}" if _IMAGE.search(text) else text


_PERMANENT = re.compile(r"permanent|unsupported|not supported|not implemented|NotImplemented", re.IGNORECASE)
_DEAD_ENGINE = re.compile(
    r"EngineDead|EngineCore encountered an issue|engine (?:is|has) (?:dead|died|stopped)|shutting down", re.IGNORECASE
)


def says_dead(status: int, text: str) -> bool:
    """Whether an answer with this status says that the engine's core is gone, and not that the request is at fault."""
    return status >= 500 and _DEAD_ENGINE.search(text) is not None


def from_upstream(status: int, headers: Mapping[str, str], body: bytes, prompt: int | None = None, *, is_clients_key: bool = False) -> ApiError:
    """What an engine's error answer becomes. `headers` by lower-case name; `prompt` is the tokens that its tokenizer counted
    after an overflow that was not exact; `is_clients_key`: the key that the engine saw is the client's own."""
    if status < 400:
        return ApiError(502, f"The engine answered with status {status}.")
    text = told(text_of(body)) or f"The engine answered with status {status}."
    if status in (400, 413, 422, 500) and (found := overflow_of(text)):
        return ApiError(400, f"{(found if prompt is None else found.counted(prompt)).wording()}\n{text}")
    if status in (401, 403) and not is_clients_key:
        return ApiError(502, f"The engine refused the bridge: {text}", should_retry=False)
    wish = {"true": True, "false": False}.get(headers.get("x-should-retry", "").strip().lower())
    if wish is not False and says_dead(status, text):
        return DeadEngineError(503, text, retry_after=_delay(headers), should_retry=True)
    if status in (429, 503, 529):
        return ApiError(status, text, retry_after=_delay(headers), should_retry=wish is not False)
    if wish is not None:
        return ApiError(status, text, should_retry=wish)
    if status == 400:
        return ApiError(400, told_of_media(text))
    # The engine gives 500 to what it will refuse again; a gateway's 502 or 504 may pass.
    return ApiError(status, text, should_retry=(status != 500 and not _PERMANENT.search(text)) if status >= 500 else None)


def from_event(data: Any) -> ApiError:
    """What an error in an engine's stream becomes, after the first byte as before it."""
    error = data.get("error") or data if isinstance(data, dict) else data
    text = told(_text(data)) or "The engine reported an error."
    codes = [error.get(key) for key in ("code", "status", "status_code")] if isinstance(error, dict) else []
    code = next(filter(None, map(_status_of_code, codes)), None)
    kind = error.get("type") if isinstance(error, dict) else None
    if found := overflow_of(text):
        return ApiError(400, f"{found.wording()}\n{text}")
    if says_dead(code or 500, text):
        return DeadEngineError(503, text, retry_after=RETRY_AFTER_S, should_retry=True)
    if code is None and isinstance(kind, str):
        code = STATUS_OF_TYPE.get(kind) or _status_of_engine_type(kind)
    return ApiError(code or 500, text)


def text_of(body: bytes) -> str:
    """The message in an error body of any known shape, or its text when it is none."""
    try:
        found = _text(loads(body)) or body.decode("utf-8", "replace")
        found = "" if found.strip() in ("", "{}", "[]", "null", '""') else found
    except BadJsonError:
        found = body.decode("utf-8", "replace").strip()
        found = re.sub(r"<[^<>]*>", " ", found) if found.startswith("<") else found
    return found.strip()[:MAX_TEXT]


def _text(data: Any) -> str:
    if isinstance(data, str):
        return data[:MAX_TEXT]
    if isinstance(data, list):
        return "; ".join(filter(None, map(_text, data)))[:MAX_TEXT]
    if isinstance(data, dict):
        return next(filter(None, (_text(data.get(key)) for key in ("error", "message", "msg", "detail", "errors"))), "")
    return ""


def _status_of_code(value: object) -> int | None:
    """The status in an error's `code`: a number, a number as text, or a word such as `rate_limit_exceeded`."""
    if isinstance(value, str) and not value.isdecimal():
        found = _status_of_engine_type(value)
        return found if found != 500 else None
    number = int(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else 0
    return number if 400 <= number <= 599 else None


def _status_of_engine_type(kind: str) -> int:
    words = kind.lower().replace("_", "")
    known = (("badrequest", 400), ("invalid", 400), ("contextlength", 400), ("notfound", 404), ("ratelimit", 429), ("overloaded", 529),
             ("unavailable", 503), ("timeout", 504))  # fmt: skip
    return next((status for word, status in known if word in words), 500)


_DELAY = re.compile(r"\d+(?:\.\d+)?|[A-Z][a-z]{2}, \d.*GMT")


def _delay(headers: Mapping[str, str]) -> str | int:
    """When to come again: as the engine says it, where SDKs understand that."""
    value, exact = headers.get("retry-after", "").strip(), headers.get("retry-after-ms", "").strip()
    if _DELAY.fullmatch(value):
        return value
    return max(1, -(-int(exact) // 1000)) if exact.isascii() and exact.isdecimal() else RETRY_AFTER_S


_SECRET = re.compile(r"\b(?:sk|hf|ghp|rpa|pk)[-_][A-Za-z0-9_-]{8,}|\bBearer\s+[A-Za-z0-9._~+/-]{8,}=*", re.IGNORECASE)


# Longer than in `redacted`, since names of models and of files begin so, too, and the engine's words are to be kept.
_KEY = re.compile(r"\b(?:sk|hf|ghp|rpa|pk)[-_][A-Za-z0-9_-]{20,}|\bBearer\s+[A-Za-z0-9._~+/-]{8,}=*", re.IGNORECASE)


def told(text: str) -> str:
    """The engine's words for a client, without what looks like a key: gateways repeat the key that they refuse."""
    return _KEY.sub("[redacted]", text)


def redacted(text: str, secrets: Iterable[str] = ()) -> str:
    """The text with known secrets, and whatever looks like a key or a bearer token, replaced by [redacted]."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "[redacted]")
    return _SECRET.sub("[redacted]", text)
