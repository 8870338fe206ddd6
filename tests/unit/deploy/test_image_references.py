"""Names of images, as Docker reads them."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from compiler.deploy.failures import BadReference
from compiler.deploy.registry import is_loopback, parse_reference

SHA = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "full"),
    [
        ("debian", "docker.io/library/debian:latest"),
        ("debian:13", "docker.io/library/debian:13"),
        ("nvidia/cuda:13.0.1-base-ubuntu24.04", "docker.io/nvidia/cuda:13.0.1-base-ubuntu24.04"),
        ("index.docker.io/debian:13", "docker.io/library/debian:13"),
        ("ghcr.io/me/pod:1", "ghcr.io/me/pod:1"),
        ("localhost/pod:1", "localhost/pod:1"),
        ("localhost:5000/pod", "localhost:5000/pod:latest"),
        ("[::1]:5000/a/b:1", "[::1]:5000/a/b:1"),
        ("quay.io/a__b/c-d.e:V_1", "quay.io/a__b/c-d.e:V_1"),
        (f"debian@{SHA}", f"docker.io/library/debian@{SHA}"),
        (f"debian:13@{SHA}", f"docker.io/library/debian:13@{SHA}"),
    ],
)
def test_short_names_become_full_ones(text: str, full: str) -> None:
    assert str(parse_reference(text)) == full


@pytest.mark.parametrize(
    "text", ["", ":1", "a:", "a/:1", "/a", "Debian:13", "a//b:1", "a:b:c", "a b", "a@sha256:12", "a@", "ghcr.io/", "ghcr.io:x/a", "a:-1", "a/../b", "a\n", "é", "[::g]:5000/a:1", "[.]/a"]
)
def test_what_no_registry_takes_is_refused(text: str) -> None:
    with pytest.raises(BadReference) as caught:
        parse_reference(text)
    assert caught.value.fix.startswith("Write registry/repository:tag")


def test_docker_hub_answers_under_another_name_and_only_this_machine_over_http() -> None:
    assert parse_reference("debian:13").manifest_url == "https://registry-1.docker.io/v2/library/debian/manifests/13"
    assert parse_reference(f"ghcr.io/a/b:1@{SHA}").manifest_url == f"https://ghcr.io/v2/a/b/manifests/{SHA}"
    assert parse_reference("127.0.0.1:5000/a:1").manifest_url == "http://127.0.0.1:5000/v2/a/manifests/1"


@pytest.mark.parametrize(
    ("host", "here"),
    [("localhost", True), ("localhost:5000", True), ("127.9.9.9:1", True), ("[::1]:5000", True), ("localhost.example.com", False), ("127.0.0.1.nip.io", False), ("10.0.0.1", False), ("[::1", False)],
)
def test_loopback(host: str, here: bool) -> None:
    assert is_loopback(host) is here


component = st.from_regex(r"[a-z0-9]{1,8}((\.|_|__|-{1,3})[a-z0-9]{1,4}){0,2}", fullmatch=True)
host = st.sampled_from(["", "docker.io/", "ghcr.io/", "localhost/", "localhost:5000/", "registry.example.com:8443/", "[2001:db8::1]:5000/", "127.0.0.1:5000/"])
tag = st.one_of(st.just(""), st.from_regex(r":[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True))
digest = st.one_of(st.just(""), st.from_regex(r"@sha256:[0-9a-f]{64}", fullmatch=True))


@given(host, st.lists(component, min_size=1, max_size=4), tag, digest)
def test_a_full_name_reads_back_as_itself(host: str, path: list[str], tag: str, digest: str) -> None:
    assume(host or len(path) == 1 or "." not in path[0])  # Such a first part is itself a registry.
    first = parse_reference(f"{host}{'/'.join(path)}{tag}{digest}")
    assert parse_reference(str(first)) == first
    assert (first.tag is not None) or digest
    assert first.repository.endswith(path[-1])


@given(st.text(max_size=60))
def test_any_text_is_a_name_or_refused(text: str) -> None:
    try:
        found = parse_reference(text)
    except BadReference:
        return
    assert parse_reference(str(found)) == found
    assert " " not in found.manifest_url
