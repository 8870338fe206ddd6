"""Pasted secrets are found by their shape, hidden wherever they stand, and nothing harmless is taken for one."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compiler.secrets import SHAPES, find_secrets, masked

ROOT = Path(__file__).resolve().parents[2]
WORD = string.ascii_letters + string.digits

# Prefix, alphabet and length of each shape's body: secrets are made here, none is real.
MADE: dict[str, tuple[str, str, int]] = {
    "Hugging Face token": ("hf_", WORD, 34),
    "Anthropic key": ("sk-ant-api03-", WORD + "-_", 60),
    "OpenAI key": ("sk-proj-", WORD + "-_", 48),
    "RunPod key": ("rpa_", string.ascii_uppercase + string.digits, 46),
    "GitHub token": ("ghp_", WORD, 36),
    "GitLab token": ("glpat-", WORD, 20),
    "AWS access key id": ("AKIA", string.ascii_uppercase + string.digits, 16),
    "Slack token": ("xoxb-", string.digits + "-", 30),
    "Google key": ("AIza", WORD + "_-", 35),
    "npm token": ("npm_", WORD, 36),
    "PyPI token": ("pypi-", WORD + "_-", 80),
    "Docker token": ("dckr_pat_", WORD, 27),
    "NVIDIA key": ("nvapi-", WORD + "_-", 64),
    "Groq key": ("gsk_", WORD, 52),
    "private key": ("-----BEGIN OPENSSH PRIVATE KEY-----\n", WORD + "+/", 200),
    "age key": ("AGE-SECRET-KEY-1", string.ascii_uppercase + string.digits, 58),
    "JSON web token": ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.", WORD, 43),
}


@st.composite
def secrets(draw: st.DrawFn) -> str:
    prefix, alphabet, length = MADE[draw(st.sampled_from(sorted(MADE)))]
    return prefix + draw(st.text(alphabet, min_size=length, max_size=length))


def test_every_prefixed_shape_has_an_example() -> None:
    named_by_context = {"bearer token", "password in an address", "value of a secret"}
    assert {shape.kind for shape in SHAPES} == MADE.keys() | named_by_context


@given(secrets(), st.text(max_size=40), st.text(max_size=40))
def test_masked_text_never_holds_the_secret(secret: str, before: str, after: str) -> None:
    text = f"{before} {secret} {after}\n{secret}\n"
    assert find_secrets(text)
    assert secret not in masked(text)


@given(st.text(WORD, min_size=24, max_size=64), st.sampled_from(["API_KEY", "VLLM_API_KEY", "hf-token", "db_password", "client-secret"]), st.sampled_from(
    ["{n}: {v}", "{n}={v}", "export {n}='{v}'", '"{n}": "{v}"', '["--{n}", "{v}"]', "--{n} {v}", '{{"name": "{n}", "value": "{v}"}}', "{n}: {{value: {v}}}", "{n}:\n  value: '{v}'"]))  # fmt: skip
def test_value_after_a_telling_name_is_hidden(value: str, name: str, form: str) -> None:
    value = "a1B2" + value
    text = form.format(n=name, v=value)
    assert [text[s.start : s.end] for s in find_secrets(text)] == [value]
    assert value not in masked(text)


@given(st.lists(st.one_of(secrets(), st.text(max_size=20), st.sampled_from(["API_KEY: ", "token=", "Bearer ", " "])), max_size=8))
def test_masking_is_finished_after_one_pass(parts: list[str]) -> None:
    hidden = masked("".join(parts))
    assert masked(hidden) == hidden


@pytest.mark.parametrize("text", [
    "revision: 0123456789abcdef0123456789abcdef01234567",
    "digest: sha256:" + "0123456789abcdef" * 4,
    "key: " + "0123456789abcdef" * 4,
    "HF_TOKEN: '{{ RUNPOD_SECRET_hf-token }}'",
    'api_key="${VLLM_API_KEY:?no key}"',
    "Authorization: Bearer ${VLLM_API_KEY}",
    "token_env: ENDPOINT_API_KEY_NUMBER_2",
    "secret: registry-token-of-team-2026",
    "token: /run/secrets/hub-token-2026-a",
    "repo: someone/disk-0123456789abcdefghij-W4A16",
    "max_num_batched_tokens: 8192, hf_overrides: {}",
    "tokenizer: owner/tokenizer-fix-20260101-abcdef",
    "evidence: [a40-ornith/a40-ornith-v43d-numa-ep-agg-32]",
    "https://example.invalid:8080/path@v1",
    "HF_TOKEN, HF_XET_HIGH_PERFORMANCE=1",
])  # fmt: skip
def test_harmless_text_is_left_alone(text: str) -> None:
    assert find_secrets(text) == []
    assert masked(text) == text


def test_no_shipped_spec_looks_like_a_secret() -> None:
    files = [f for f in (ROOT / "specs").rglob("*") if f.is_file()]
    assert files
    assert {str(f): find_secrets(f.read_text(encoding="utf-8")) for f in files if find_secrets(f.read_text(encoding="utf-8"))} == {}


def test_two_shapes_over_one_value_become_one_span() -> None:
    text = "HF_TOKEN=hf_" + "a1" * 17
    (span,) = find_secrets(text)
    assert (span.kind, text[span.start : span.end]) == ("Hugging Face token", "hf_" + "a1" * 17)
    assert masked(text) == "HF_TOKEN=[hidden: Hugging Face token]"


def test_password_in_an_address_is_hidden() -> None:
    assert masked("git clone https://me:correct-horse@example.invalid/x") == "git clone https://me:[hidden: password in an address]@example.invalid/x"
