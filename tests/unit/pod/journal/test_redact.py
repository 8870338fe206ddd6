"""No form of a secret survives: properties over values, token shapes, encodings and broken lines."""

from __future__ import annotations

import base64
import html
import json
import re
import string
import time
import urllib.parse

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pod.journal.redact import MASK, Redactor, secret_values
from pod.journal.views import views

PLAIN = string.ascii_letters + string.digits
values = st.one_of(
    st.text(alphabet=PLAIN + "-_.+/=%&\\\"' :@$#", min_size=6, max_size=60),
    st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=6, max_size=40),
).filter(lambda v: v == v.strip() and len(set(v)) > 2 and v not in MASK)
tokens = st.one_of(
    st.text(PLAIN, min_size=33, max_size=33).map(lambda t: "hf_A" + t),
    st.text(PLAIN + "-_", min_size=20, max_size=80).map(lambda t: "sk-ant-api03-" + t),
    st.text(string.ascii_uppercase + string.digits, min_size=40, max_size=44).map(lambda t: "rpa_A" + t),
)
around = st.sampled_from(["", " ", "key=", "\"", "(EngineCore pid=12) INFO: ", "https://x/?t=", "ünï ", "\n"])


def encodings(value: str) -> dict[str, str]:
    """How a value gets into logs."""
    data = value.encode()
    return {
        "plain": value,
        "url": urllib.parse.quote(value, safe=""),
        "form": urllib.parse.quote_plus(value),
        "lower-case url": re.sub("%..", lambda m: m.group().lower(), urllib.parse.quote(value, safe="")),
        "every byte": "".join(f"%{byte:02X}" for byte in data),
        "json": json.dumps(value)[1:-1],
        "json without ascii": json.dumps(value, ensure_ascii=False)[1:-1],
        "json in json": json.dumps(json.dumps(value))[3:-3],
        "url in json": json.dumps(urllib.parse.quote(value, safe=""))[1:-1],
        "repr": repr(value)[1:-1],
        "html": html.escape(value),
        "base64": base64.b64encode(data).decode(),
        "urlsafe base64": base64.urlsafe_b64encode(data).decode(),
    }


@settings(max_examples=300, deadline=None)
@given(values, around, around)
def test_no_encoding_of_a_value_survives(value: str, before: str, after: str) -> None:
    redactor = Redactor([value])
    assume(value not in before + after)
    for name, encoded in encodings(value).items():
        text = redactor.text(before + encoded + after)
        assert encoded not in text, name
        assert value not in text, name
        assert all(value not in view.text for view in views(text)), name
        assert before.rstrip("=\"") in text or name.endswith("base64")


@settings(max_examples=200, deadline=None)
@given(values, st.text(PLAIN, max_size=9), st.sampled_from(["b64encode", "urlsafe_b64encode"]))
def test_no_basic_authentication_survives(value: str, user: str, encoder: str) -> None:
    encoded = getattr(base64, encoder)(f"{user}:{value}".encode()).decode()
    for text in (f"Authorization: Basic {encoded}", f'{{"h": "{encoded}"}}', f"curl -u {encoded}|", f"basic%20{urllib.parse.quote(encoded)}"):
        found = Redactor([value]).text(text)
        assert encoded[:-2].rstrip("=") not in found
        for run in re.findall(r"[A-Za-z0-9+/_-]{8,}", found):
            run = run[:-1] if len(run) % 4 == 1 else run
            plain = base64.b64decode(run.replace("-", "+").replace("_", "/") + "=" * (-len(run) % 4))
            assert value.encode() not in plain


@settings(max_examples=200, deadline=None)
@given(tokens, around, st.data())
def test_no_known_token_shape_survives_whole_or_over_lines(token: str, before: str, data: st.DataObject) -> None:
    redactor = Redactor([])
    cut = data.draw(st.integers(1, len(token) - 1))
    mark = data.draw(st.sampled_from(["\n", "\r\n", "\n    ", "\n(Worker pid=7) ", "\\n", "\\\n"]))
    for text in (f"{before}{token} end", f"{before}{token[:cut]}{mark}{token[cut:]} end"):
        found = redactor.text(text)
        for piece in (token[:cut], token[cut:]):
            if len(piece) > 8:
                assert piece not in found
        assert found.endswith(" end")


@settings(max_examples=200, deadline=None)
@given(values, st.data())
def test_no_value_survives_over_lines(value: str, data: st.DataObject) -> None:
    assume(" " not in value and "\\" not in value and "\n" not in value)
    cuts = sorted(data.draw(st.sets(st.integers(1, len(value) - 1), min_size=1, max_size=3)))
    pieces = [value[a:b] for a, b in zip([0, *cuts], [*cuts, len(value)], strict=True)]
    text = "start " + "\n".join(pieces) + " end"
    assert Redactor([value]).text(text) == f"start {MASK}" + "\n" * len(cuts) + " end"


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=200), st.lists(values, max_size=3))
def test_any_text_is_taken_and_a_second_pass_changes_nothing(text: str, secrets: list[str]) -> None:
    redactor = Redactor(secrets)
    once = redactor.text(text)
    assert redactor.text(once) == once
    if not secrets and not any(word in text.lower() for word in ("basic", "bearer", "key", "pass", "://", "_", "sk-", "eyj")):
        assert once == text


@pytest.mark.parametrize("text", [
    "Authorization: Bearer abcd1234efgh", "authorization: bearer%20abcd1234efgh", '{"x-api-key": "abcd1234efgh"}', "--api-key abcd1234efgh",
    "--api-key=abcd1234efgh", "'api_key': ['abcd1234efgh']", "https://user:abcd1234efgh@host/x", "password=abcd1234efgh&x=1",
    "Authorization: Basic " + base64.b64encode(b"me:abcd1234efgh").decode(), "AKIAABCD1234EFGH5678",
    "-----BEGIN PRIVATE KEY-----\nabcd1234efgh\n-----END PRIVATE KEY-----", "eyJhbGciOiJI.abcd1234efghij.abcd1234efgh",
    "ghp_abcd1234efghabcd1234efgh", "github_pat_abcd1234efghabcd1234efgh",
])  # fmt: skip
def test_shapes_that_nobody_told_us_about(text: str) -> None:
    found = Redactor([]).text(text)
    assert MASK in found
    assert "1234efgh" not in found
    assert base64.b64encode(b"me:abcd1234efgh").decode() not in found


@pytest.mark.parametrize("text", [
    "--hf_overrides set; hf_transfer and hf_hub_download are used", "task-aware_scheduling_of_batches", "basic configuration of the server",
    "GPU KV cache size: 794,016 tokens", "Bearing north", "http://127.0.0.1:8080/health", "risk-adjusted_values_are_fine", "50%25",
    "tokenizer_mode=auto, max_tokens=24, completion_tokens: 7", "C:\\new\\table", "&amp; more",
])  # fmt: skip
def test_words_stay_readable(text: str) -> None:
    assert Redactor(["s3cret-value"]).text(text) == text


def test_every_text_of_a_json_value_is_redacted() -> None:
    value = {"a": ["x s3cret-value y", 1, None, True], "s3cret-value": {"b": ("s3cret-value", 1.5)}}
    assert Redactor(["s3cret-value"]).value(value) == {"a": [f"x {MASK} y", 1, None, True], MASK: {"b": [MASK, 1.5]}}


def test_values_of_several_lines_are_masked_line_by_line() -> None:
    pem = "-----BEGIN K-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END K-----\n"
    found = Redactor([pem]).text(f"a {pem} b kqhkiG9w0BAQEF c {json.dumps(pem)}")
    assert "MIIEvQIBADANBg" not in found
    assert "kqhkiG9w0BAQEF" not in found
    assert found.startswith("a ")


def test_secrets_of_an_environment_are_found_by_name() -> None:
    environ = {"HF_TOKEN": "a", "X_API_KEY": "b", "VNC_PASSWORD": "c", "AWS_SECRET_ACCESS_KEY": "d", "MINE": "e", "PATH": "/bin",
               "TOKENIZERS_PARALLELISM": "false", "EMPTY_KEY": "", "KEYBOARD": "de"}
    assert secret_values(environ, ["MINE"]) == ["a", "b", "c", "d", "e"]


def test_short_values_and_the_mask_itself_are_left_alone() -> None:
    assert Redactor(["abc", "", "redacted"]).text("abc redacted") == "abc redacted"


def test_a_mirror_full_of_log_takes_a_fraction_of_a_second() -> None:
    line = '(APIServer pid=1) INFO 11-30 00:46:20 [x.py:1] "POST /v1/messages?beta=true HTTP/1.1" 200 OK %41 \\u0041 s3cret-value-one\n'
    text, redactor = line * 800, Redactor([f"s3cret-value-{n}" for n in ("one", "two", "three", "four", "five")])
    started = time.process_time()
    found = redactor.text(text)
    assert "s3cret" not in found
    assert time.process_time() - started < 1.0
