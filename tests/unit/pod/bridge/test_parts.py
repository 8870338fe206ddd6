"""The small parts: JSON, framing, errors, names, settings."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod.bridge import codec, errors, sse
from pod.bridge.models import Names
from pod.bridge.settings import MAX_BODY, Model, Settings, SettingsError, from_arguments, from_manifest
from pod.bridge.size import IMAGE_TOKENS, estimate, too_long, wants_count
from pod.bridge.turn import Turn
from pod.contract import Bridge

from tests.unit.pod.manifests import example_manifest

# --- JSON

values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**53), 2**53), st.text()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(), inner, max_size=3)),
    max_leaves=8,
)


@given(values)
def test_both_ways_of_writing_and_reading_agree(value: Any) -> None:
    assert codec.loads(codec.dumps(value)) == codec.tolerant_loads(codec.standard_dumps(value)) == value
    text = json.dumps(value)
    quoted = codec.quoted(text)
    assert json.loads(quoted) == text
    assert codec.one_line(codec.standard_quoted(text)) == quoted


@pytest.mark.parametrize("data", [b"", b"{", b"NaN", b"[Infinity]", b"[" * 100_000, b'{"a":1} x', b"\x00"])
def test_what_is_no_json(data: bytes) -> None:
    with pytest.raises(codec.BadJsonError):
        codec.loads(data)


def test_damaged_text_is_replaced_and_never_let_out() -> None:
    assert codec.loads(b'"a\xffb"') == "a\ufffdb"
    assert codec.loads(b'["\\ud800", "\\ud83d\\ude00"]') == ["\ufffd", "\U0001f600"]
    assert codec.quoted("a\ud800") == b'"a?"'
    assert codec.dumps({"a": "\ud800"}) == b'{"a":"?"}'


def test_no_reader_finds_a_line_end_inside_a_string() -> None:
    assert codec.quoted("a\u2028b\u2029c\x85d\n") == b'"a\\u2028b\\u2029c\\u0085d\\n"'
    assert len(sse.frame("ping", {"type": "ping", "x": "\u2028\u2029\x85\r\n"}).decode().splitlines()) == 3


# --- framing


def events(*pieces: bytes) -> list[tuple[str, bytes]]:
    decoder = sse.Decoder()
    found = [event for piece in pieces for event in decoder.feed(piece)] + decoder.flush()
    return [(event.name, event.data) for event in found]


@pytest.mark.parametrize(
    ("stream", "found"),
    [
        (b"data: a\n\n", [("", b"a")]),
        (b"data:a\n\ndata:  b\n\n", [("", b"a"), ("", b" b")]),
        (b"event: e\ndata: a\ndata: b\n\n", [("e", b"a\nb")]),
        (b": note\n\n: note\ndata: a\n\n", [("", b"a")]),
        (b"id: 1\nretry: 5\ndata: a\n\n", [("", b"a")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", b"a")]),
        (b"data: a\r\n\r\ndata: b\r\r", [("", b"a"), ("", b"b")]),
        (b"data: a\n\r\n", [("", b"a")]),
        (b"data: a", [("", b"a")]),
        (b"\n\n\ndata: a\n\n\n\n", [("", b"a")]),
        (b"event: e\n\n", []),
        (b"data\n\n", [("", b"")]),
        ("data: é😀\n\n".encode(), [("", "é😀".encode())]),
    ],
)
def test_framing(stream: bytes, found: list[tuple[str, bytes]]) -> None:
    assert events(stream) == found
    assert events(*(stream[i : i + 1] for i in range(len(stream)))) == found


def test_an_event_is_given_before_the_next_one_begins() -> None:
    decoder = sse.Decoder()
    assert [event.data for event in decoder.feed(b"data: a\r\r")] == [b"a"]
    assert [event.data for event in decoder.feed(b"data: b\r\n\r\n")] == [b"b"]


# --- errors

V27 = (
    "This model's maximum context length is 262144 tokens. However, you requested {asked} "
    "output tokens and your prompt contains {prompt} input tokens, "
    "for a total of 1 tokens. Please reduce the length of the input prompt or the number of requested output tokens."
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (V27.format(asked=32000, prompt="262085"), errors.Overflow(262144, 262085, 32000, True)),
        (V27.format(asked=32000, prompt="at least 230145"), errors.Overflow(262144, 230145, 32000, False)),
        (
            "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens "
            "(4500 in the messages, 500 in the completion).",
            errors.Overflow(4096, 4500, 500, True),
        ),
        (
            "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make "
            "sure that `max_model_len` is no smaller.",
            errors.Overflow(4096, 5000, 0, True),
        ),
        (
            "This model's maximum context length is 100 tokens. However, you requested 9 output "
            "tokens and your prompt contains 99999 characters "
            "(more than 9100 characters, which is the upper bound for 91 input tokens).",
            errors.Overflow(100, 101, 9, False),
        ),
        (
            "'max_tokens' or 'max_completion_tokens' is too large: 64. This model's maximum context "
            "length is 100 tokens and your request has 50 input tokens (64 > 100 - 50).",
            errors.Overflow(100, 50, 64, True),
        ),
        ("out of memory", None),
        ("maximum context length is 100 tokens", None),
    ],
)
def test_overflows(text: str, found: errors.Overflow | None) -> None:
    assert errors.overflow_of(text) == found


@pytest.mark.parametrize(
    ("overflow", "prompt", "lowered"),
    [
        (errors.Overflow(196608, 150000, 64000, True), None, 46608),
        (errors.Overflow(100000, 99500, 64000, True), None, None),
        (errors.Overflow(1000, 995, 10, True), None, None),
        (errors.Overflow(1000, 500, 600, True), None, None),
        (errors.Overflow(100000, 68001, 32000, False), 80000, 20000),
        (errors.Overflow(100000, 68001, 32000, False), 99999, None),
        (errors.Overflow(100000, 68001, 32000, False), None, None),
    ],
)
def test_a_second_try_is_made_only_for_a_useful_answer(overflow: errors.Overflow, prompt: int | None, lowered: int | None) -> None:
    assert (overflow if prompt is None else overflow.counted(prompt)).lowered() == lowered


def test_a_count_decides_which_words_a_client_gets() -> None:
    body = json.dumps({"error": {"message": V27.format(asked=60, prompt="at least 262085")}}).encode()
    assert errors.from_upstream(400, {}, body, 300_000).message.startswith(
        "prompt is too long: 300000 tokens > 262144 maximum\nThis model's"
    )
    assert errors.from_upstream(400, {}, body, 262_100).message.startswith(
        "input length and `max_tokens` exceed context limit: 262100 + 60 > 262144\n"
    )


@pytest.mark.parametrize(
    ("status", "body", "told", "kind", "retry"),
    [
        (400, {"error": {"message": "bad"}}, 400, "invalid_request_error", None),
        (422, {"detail": [{"msg": "x"}, {"msg": "y"}]}, 422, "invalid_request_error", None),
        (401, {"error": "key"}, 502, "api_error", "false"),
        (404, {"error": {"message": "no model"}}, 404, "not_found_error", None),
        (413, {}, 413, "request_too_large", None),
        (429, {}, 429, "rate_limit_error", "true"),
        (500, {"error": {"message": "x"}}, 500, "api_error", "false"),
        (500, {"error": {"message": "EngineCore encountered an issue."}}, 503, "overloaded_error", "true"),
        (502, {}, 502, "api_error", "true"),
        (503, {}, 503, "overloaded_error", "true"),
        (504, {}, 504, "timeout_error", "true"),
        (418, {}, 418, "invalid_request_error", None),
        (302, {}, 502, "api_error", None),
    ],
)
def test_statuses(status: int, body: Any, told: int, kind: str, retry: str | None) -> None:
    error = errors.from_upstream(status, {}, json.dumps(body).encode())
    assert (error.status, error.kind, error.headers().get("x-should-retry")) == (told, kind, retry)
    assert ("retry-after" in error.headers()) == (told in (429, 503))
    assert error.payload("req_1") == {"type": "error", "error": {"type": kind, "message": error.message}, "request_id": "req_1"}


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (errors.unreachable(), 503, "overloaded_error"),
        (errors.saturated(), 529, "overloaded_error"),
        (errors.silent(600), 504, "timeout_error"),
        (errors.empty(), 502, "api_error"),
        (errors.cut_off(), 502, "api_error"),
        (errors.too_large(9), 413, "request_too_large"),
    ],
)
def test_the_bridges_own_errors(error: errors.ApiError, status: int, kind: str) -> None:
    assert (error.status, error.kind) == (status, kind)


def test_a_refused_budget_is_known_by_its_name() -> None:
    assert errors.refuses_budget(400, "thinking_token_budget is not yet supported by the V2 model runner.")
    assert not errors.refuses_budget(500, "thinking_token_budget")
    assert not errors.refuses_budget(400, "temperature must be non-negative")


def test_secrets_are_taken_out() -> None:
    text = "key my-own-key, sk-abcdefgh1234, Bearer abc.def-ghi123, hf_abcdefghij and plain words"
    assert errors.redacted(text, ["my-own-key"]) == "key [redacted], [redacted], [redacted], [redacted] and plain words"


def test_long_texts_are_cut() -> None:
    assert len(errors.from_upstream(400, {}, b"x" * 100_000).message) == errors.MAX_TEXT


# --- names

MODELS = (
    Model(("bare", "claude-bare", "claude-bare[1m]"), "u", ("my-alias",), 1_048_576),
    Model(("org/Other-7B:fp8", "a/Twin"), "v"),
    Model(("b/Twin",), "w"),
)


@pytest.mark.parametrize(
    ("asked", "sent", "known"),
    [
        ("bare", "bare", True),
        ("claude-bare", "claude-bare", True),
        ("claude-bare[1m]", "claude-bare[1m]", True),
        ("bare[1m]", "bare", True),
        ("BARE", "bare", True),
        ("my-alias", "bare", True),
        ("claude-my-alias", "bare", True),
        ("Other-7B:fp8", "org/Other-7B:fp8", True),
        ("org%2FOther-7B%3Afp8", "org/Other-7B:fp8", True),
        ("claude-Other-7B:fp8", "org/Other-7B:fp8", True),
        ("a/Twin", "a/Twin", True),
        ("Twin", "bare", False),
        ("claude-sonnet-9", "bare", False),
    ],
)
def test_names(asked: str, sent: str, known: bool) -> None:
    match = Names(MODELS).resolve(asked)
    assert (match.upstream_name, match.known) == (sent, known)


def test_pages() -> None:
    names = Names(MODELS, created=1_700_000_000)
    first = names.page(anthropic=True, query={"limit": "2"})
    assert ([entry["id"] for entry in first["data"]], first["has_more"], first["first_id"], first["last_id"]) == (
        ["bare", "claude-bare"],
        True,
        "bare",
        "claude-bare",
    )
    assert first["data"][0] == {
        "type": "model",
        "id": "bare",
        "display_name": "bare",
        "created_at": "2023-11-14T22:13:20Z",
        "context_window": 1_048_576,
        "max_input_tokens": 1_048_576,
    }
    rest = names.page(anthropic=True, query={"limit": "1000", "after_id": "claude-bare"})
    assert [entry["id"] for entry in rest["data"]] == ["claude-bare[1m]", "my-alias", "org/Other-7B:fp8", "a/Twin", "b/Twin"]
    before = names.page(anthropic=True, query={"limit": "1", "before_id": "my-alias"})
    assert ([entry["id"] for entry in before["data"]], before["has_more"]) == (["claude-bare[1m]"], True)
    assert names.page(anthropic=False)["data"][0]["max_model_len"] == 1_048_576
    assert names.page(anthropic=True, query={"after_id": "b/Twin"}) == {"data": [], "has_more": False, "first_id": None, "last_id": None}


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "x"}, {"limit": "1001"}, {"after_id": "nobody"}, {"after_id": "bare", "before_id": "bare"}]
)
def test_pages_that_cannot_be(query: dict[str, str]) -> None:
    with pytest.raises(errors.InvalidRequestError):
        Names(MODELS).page(anthropic=True, query=query)


# --- settings


def test_settings_of_a_manifest() -> None:
    manifest = example_manifest()
    settings = from_manifest(manifest)
    bridge: Bridge = manifest.bridge
    assert (settings.mode, settings.port, settings.ping_s, settings.usage_s) == (bridge.mode, bridge.port, bridge.ping_s, bridge.usage_s)
    assert settings.models[0].names == manifest.engine.served_names
    assert settings.models[0].upstream.endswith(f":{manifest.engine.launch.port}")
    assert settings.models[0].context_window == manifest.engine.context_window
    assert settings.thinking_budget is bridge.thinking_budget_supported
    assert [env for _, env in settings.keys] == ([bridge.api_key_env] if bridge.api_key_env else [])


def test_a_bridge_that_is_off_has_no_settings() -> None:
    manifest = example_manifest()
    with pytest.raises(SettingsError, match="off"):
        from_manifest(dataclasses.replace(manifest, bridge=dataclasses.replace(manifest.bridge, mode="off")))


def test_settings_of_a_command_line() -> None:
    settings = from_arguments(
        [
            "--listen",
            "0.0.0.0:9000",
            "--upstream",
            "http://127.0.0.1:18081/v1/",
            "--mode",
            "native",
            "--api-key-env",
            "ci=CI_KEY",
            "--api-key-env",
            "OWN",
            "--model",
            "served",
            "--alias",
            "one",
            "--alias",
            "one",
            "--context-window",
            "4096",
            "--guard",
            "--thinking-budget",
            "off",
        ]
    )
    assert settings == Settings(
        (Model(("served",), "http://127.0.0.1:18081", ("one",), 4096),),
        mode="native",
        host="0.0.0.0",
        port=9000,
        keys=(("ci", "CI_KEY"), ("own", "OWN")),
        guard=True,
        thinking_budget=False,
        max_prompt_tokens=4096,
        max_body=MAX_BODY,
    )
    assert settings.bind_host == "0.0.0.0"


def test_without_a_key_only_this_machine_may_come() -> None:
    assert from_arguments(["--listen", "0.0.0.0:9000", "--upstream", "http://h"]).bind_host == "127.0.0.1"
    assert from_arguments(["--listen", "[::1]:9000", "--upstream", "http://h"]).bind_host == "::1"


@pytest.mark.parametrize(
    "words",
    [
        "--listen 9000 --upstream http://h",
        "--listen h:99999 --upstream http://h",
        "--upstream ftp://h",
        "--upstream h:1",
        "--upstream http://h --ping 0",
        "--upstream http://h --ping nan",
        "--upstream http://h --usage-interval -1",
    ],
)
def test_settings_that_cannot_be(words: str) -> None:
    with pytest.raises(SettingsError):
        from_arguments(words.split())


# --- size


def test_the_estimate_errs_upward_and_takes_an_image_for_what_it_is() -> None:
    words = " ".join(random.Random(1).choice(["alpha", "beta", "the", "of", "function"]) for _ in range(1000))
    assert estimate({"messages": [{"role": "user", "content": words}]}) > 1000
    image = {"type": "image", "source": {"type": "base64", "data": "A" * 1_000_000}}
    assert IMAGE_TOKENS <= estimate({"messages": [{"role": "user", "content": [image]}]}) < IMAGE_TOKENS + 100
    assert estimate(None) == 1


@pytest.mark.parametrize(
    ("tokens", "counted", "asks", "refused"),
    [
        (900, None, False, False),
        (1100, None, True, False),
        (1100, 1000, True, False),
        (1100, 1001, True, True),
        (5000, None, True, True),
    ],
)
def test_a_prompt_over_the_window_does_not_reach_the_engine(tokens: int, counted: int | None, asks: bool, refused: bool) -> None:
    turn, settings = Turn("m", window=2000, estimate=tokens), Settings((), max_prompt_tokens=1000)
    assert wants_count(turn, settings) is asks
    error = too_long(turn, settings, counted)
    assert (error is not None) is refused
    if error:
        assert (error.status, error.message) == (400, f"prompt is too long: {counted or 2500} tokens > 1000 maximum")
    assert too_long(Turn("m", estimate=tokens), Settings(()), counted) is None
