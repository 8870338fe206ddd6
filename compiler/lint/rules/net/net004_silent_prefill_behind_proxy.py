"""Long prefills stay silent behind a proxy that cuts silence.

## What it flags
A pod at RunPod with a window of 131,072 tokens and more and no pings: `bridge.mode` `off` is an error, `native` a
warning.

## Why it hurts
The proxy cuts a connection after 100 to 126 s without a byte (524). The engine sends nothing before the first token,
streamed or not, and a cold prompt of 427,000 tokens was cut.

## Example
    bridge: {mode: "off"}

## Use instead
    bridge: {mode: translate}

## When to ignore
Where every prompt is short, or clients do not come through the proxy.

## Source
Deployment notes of 23 August: 352,000 tokens passed, 427,000 got 524; queue of 104 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject

RULE = Rule(
    code="NET004", name="silent-prefill-behind-proxy", severity=Severity.ERROR,
    traps=("native-silent-queue", "proxy-125s", "proxy-cut-not-about-streaming"),
)  # fmt: skip

LONG_WINDOW = 131_072  # A prompt of that size takes 100 s at 1,311 tokens a second.


def check(subject: Subject) -> Iterator[Hit]:
    """A hit when nothing pings."""
    mode, window = subject.plan.bridge.mode, subject.plan.engine.max_model_len
    if subject.plan.target == "runpod" and mode in ("off", "native") and window >= LONG_WINDOW:
        what = f"bridge mode {mode} with a window of {window:,} tokens behind RunPod's proxy"
        why = "it sends nothing during prefill, and the proxy cuts after 100 s of silence"
        severity = None if mode == "off" else Severity.WARNING
        yield Hit(subject.place("profile", "bridge", "mode"), what, why, "use mode translate, or keepalive", severity=severity)
