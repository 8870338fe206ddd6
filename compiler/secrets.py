"""Secrets that somebody pasted in clear, recognised by their shape, found and hidden but never echoed.

The shapes are data. They favour precision: commit shas, digests, repository names and evidence ids are not secrets, so a
plain run of hexadecimal digits counts only right after a name that says what it is (`API_KEY: ...`).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """One kind of secret. `needles` are texts of which one always occurs in it, so most texts are ruled out at once."""

    kind: str
    needles: tuple[str, ...]
    pattern: re.Pattern[str]


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Span:
    """Where a secret stands in a text (`start` to `end`, as slices count), and which kind it looks like."""

    start: int
    end: int
    kind: str


def _shape(kind: str, needles: str, body: str) -> Shape:
    """A shape whose match starts a word; the secret itself is the group `secret`, or the whole match."""
    return Shape(kind, tuple(needles.split()), re.compile(rf"(?<![A-Za-z0-9]){body}"))


# A value after a name such as API_KEY: letters and digits mixed, at least 20 of them, in YAML, JSON, shell or argv form.
# Names of variables (`OTHER_TOKEN_2`), names in kebab case and paths are references, not values.
_NAME = r"(?i:(?:api[_-]?key|access[_-]?key|secret[_-]?key|secret|token|passw(?:or)?d))"
_ASSIGN = r"[\"']?\s{0,4}[:=]\s{0,4}(?:\{?\s{0,12}[\"']?value[\"']?\s{0,4}[:=]\s{0,4})?[\"']?"
_PAIR = r"[\"']\s{0,12},\s{0,12}[\"'](?:value[\"']\s{0,4}:\s{0,4}[\"'])?"
_NEXT_WORD = r"\s{1,4}[\"']?"
_REFERENCE = r"(?!/|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+(?![A-Za-z0-9+/=-])|[a-z]+(?:[-_][a-z0-9]{1,12})+(?![A-Za-z0-9+/=_-]))"
_VALUE = rf"{_REFERENCE}(?P<secret>(?=[A-Za-z+/_=-]*[0-9])(?=[0-9+/_=-]*[A-Za-z])[A-Za-z0-9+/_=-]{{20,}})(?![A-Za-z0-9.])"
_NAMED_VALUE = rf"(?:{_NAME}(?:{_ASSIGN}|{_PAIR})|--[A-Za-z0-9_-]{{0,40}}?{_NAME}{_NEXT_WORD}){_VALUE}"

_PEM = r"-----{} [A-Z0-9 ]{{0,40}}PRIVATE KEY(?: BLOCK)?-----"
_PRIVATE_KEY = _PEM.format("BEGIN") + r"(?:(?!-----END)[\s\S]){0,16384}(?:" + _PEM.format("END") + ")?"

SHAPES: tuple[Shape, ...] = (
    _shape("Hugging Face token", "hf_ api_org_", r"(?:hf_|api_org_)[A-Za-z0-9]{20,}"),
    _shape("Anthropic key", "sk-ant-", r"sk-ant-[A-Za-z0-9_-]{16,}"),
    _shape("OpenAI key", "sk-", r"sk-(?:(?:proj|svcacct|admin|or-v1)-[A-Za-z0-9_-]{16,}|[A-Za-z0-9]{20,})"),
    _shape("RunPod key", "rpa_ rps_", r"rp[as]_[A-Za-z0-9]{20,}"),
    _shape("GitHub token", "gh github_pat_", r"(?:gh[opsur]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,})"),
    _shape("GitLab token", "glpat-", r"glpat-[A-Za-z0-9_-]{20,}"),
    _shape("AWS access key id", "AKIA ASIA", r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    _shape("Slack token", "xox", r"xox[abeoprs]-[A-Za-z0-9-]{10,}"),
    _shape("Google key", "AIza", r"AIza[A-Za-z0-9_-]{30,}"),
    _shape("npm token", "npm_", r"npm_[A-Za-z0-9]{30,}"),
    _shape("PyPI token", "pypi-", r"pypi-[A-Za-z0-9_-]{50,}"),
    _shape("Docker token", "dckr_", r"dckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    _shape("NVIDIA key", "nvapi-", r"nvapi-[A-Za-z0-9_-]{30,}"),
    _shape("Groq key", "gsk_", r"gsk_[A-Za-z0-9]{30,}"),
    Shape("private key", ("PRIVATE KEY",), re.compile(_PRIVATE_KEY)),
    _shape("age key", "AGE-SECRET-KEY-", r"AGE-SECRET-KEY-1[A-Z0-9]{20,}"),
    _shape("JSON web token", "eyJ", r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    _shape("bearer token", "earer EARER", r"(?i:bearer)\s{1,4}(?P<secret>(?=[A-Za-z._~+/-]*[0-9])[A-Za-z0-9._~+/-]{20,}=*)"),
    _shape("password in an address", "://", r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@\"'${}<>]{1,80}:(?P<secret>[^\s/:@\"'${}<>]{4,200})@"),
    Shape("value of a secret", ("key", "Key", "KEY", "ecret", "ECRET", "oken", "OKEN", "assw", "ASSW"), re.compile(_NAMED_VALUE)),
)  # fmt: skip


def find_secrets(text: str) -> list[Span]:
    """All that looks like a secret in `text`, in order; where two shapes overlap they become one span of the first one's kind."""
    spans: list[Span] = []
    for start, _, end, kind in sorted(_matches(text)):
        if spans and start < spans[-1].end:
            spans[-1] = dataclasses.replace(spans[-1], end=max(end, spans[-1].end))
        else:
            spans.append(Span(start, end, kind))
    return spans


def _matches(text: str) -> Iterator[tuple[int, int, int, str]]:
    """Start, place of the shape in the table, end and kind of each match."""
    for order, shape in enumerate(SHAPES):
        if any(needle in text for needle in shape.needles):
            group: str | int = "secret" if "secret" in shape.pattern.groupindex else 0
            for match in shape.pattern.finditer(text):
                yield match.start(group), order, match.end(group), shape.kind


def masked(text: str) -> str:
    """`text` with each secret, wherever it is repeated, replaced by `[hidden: its kind]`."""
    # A mask ends the word before what follows it, which may then be seen to be a secret too: hence more than one pass.
    while spans := find_secrets(text):
        hidden = {text[span.start : span.end]: f"[hidden: {span.kind}]" for span in spans}
        for secret in sorted(hidden, key=len, reverse=True):
            text = text.replace(secret, hidden[secret])
    return text
