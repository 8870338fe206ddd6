"""`engine_args` sets what another part of the pod relies on.

## What it flags
`host`, `port`, `served_model_name`, `model`, `tokenizer`, `revision`, `api_key`, `uds`, TLS, `root_path`, `headless` or
`grpc` among the engine's arguments.

## Why it hurts
Bridge, watchdog and clients reach the engine under what the plan says. Another port or name there is an endpoint that
nobody finds.

## Example
    engine_args: {port: 9000}

## Use instead
    engine_port: 9000
    names: [{name: my-model}]

## When to ignore
Never for address and names; they have keys of their own.

## Source
How the runtime reaches the engine.
"""

from __future__ import annotations

from collections.abc import Iterator

from compiler.diagnostics import Severity
from compiler.lint.rule import Hit, Rule, Subject
from compiler.lint.written import written_options

RULE = Rule(code="ENG010", name="option-that-podwright-decides", severity=Severity.ERROR)

OWN_KEYS = {
    "host": "`bridge.mode` decides it", "port": "set `engine_port`", "uds": "set `engine_port`",
    "served_model_name": "set `names`, or the model's `served_name` and `aliases`", "model": "set the model's `checkpoint.repo`",
    "model_tag": "set the model's `checkpoint.repo`", "revision": "set the model's `checkpoint.revision`",
    "tokenizer": "set the model's `tokenizer`", "tokenizer_revision": "set the model's `tokenizer.revision`",
    "api_key": "set `bridge.require_key`; the runtime hands the secret over", "root_path": "clients know no such prefix",
    "ssl_keyfile": "the provider's proxy speaks TLS", "ssl_certfile": "the provider's proxy speaks TLS",
    "headless": "the runtime needs the HTTP server", "grpc": "the runtime needs the HTTP server", "config": "write its keys here",
}  # fmt: skip


def check(subject: Subject) -> Iterator[Hit]:
    """A hit for each option that has a key of its own."""
    for written in written_options(subject):
        if written.section == "engine_args" and written.dest in OWN_KEYS:
            what = f"`engine_args.{written.key}` overrides what podwright decides"
            why = "bridge, watchdog and clients rely on the plan's value and would not find the engine"
            yield Hit(written.place, what, why, OWN_KEYS[written.dest], on_key=True)
