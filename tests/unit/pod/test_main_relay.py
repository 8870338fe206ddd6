"""A living pod seen from outside: what its endpoint hands on to holders of the key, and the proof of a secret."""

from __future__ import annotations

import dataclasses
import hashlib
import http.client
import json
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
from pod.contract import Secret
from pod.supervisor.proofs import SHORTEST, proof_answer, salted

from tests.unit.pod.living import Pod, free_port, living, toy_manifest

KEY, TOKEN = "k3y-for-tests", "hub-" + "t0ken" * 8


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pod]:
    manifest = toy_manifest(port=free_port(), endpoint=free_port())
    wanted = (Secret("HUB_TOKEN", True, "the Hub"), Secret("ABSENT", False, "nothing"))
    manifest = dataclasses.replace(manifest, supervisor=dataclasses.replace(manifest.supervisor, secrets=wanted))
    with living(tmp_path_factory.mktemp("pod"), manifest, {"HUB_TOKEN": TOKEN}) as running:
        running.serves()
        yield running


def asked(pod: Pod, path: str, key: str | None = KEY, method: str = "GET") -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", pod.manifest.bridge.port, timeout=10)
    try:
        connection.request(method, path, headers={"x-api-key": key} if key else {})
        response = connection.getresponse()
        text = response.read()
        assert TOKEN.encode() not in text
        return response.status, json.loads(text)
    finally:
        connection.close()


@pytest.mark.parametrize("page", ["status", "manifest", "journal", "proof?salt=" + "0" * 64])
def test_nobody_without_the_key_sees_the_pod(pod: Pod, page: str) -> None:
    assert asked(pod, f"/pod/{page}", None)[0] == 401
    assert asked(pod, f"/pod/{page}", "wrong")[0] == 401


def test_the_key_sees_status_manifest_and_journal(pod: Pod) -> None:
    status, document = asked(pod, "/pod/status")
    assert status == 200 and document["state"] == "serving"
    status, manifest = asked(pod, "/pod/manifest")
    assert status == 200 and manifest == pod.manifest.to_json()
    assert document["engine"]["manifest"] == pod.manifest.sha256()
    assert len(asked(pod, "/pod/journal?lines=2")[1]["lines"]) == 2


def test_nothing_can_be_changed_from_outside(pod: Pod) -> None:
    assert asked(pod, "/pod/reload", method="POST")[0] == 404
    assert asked(pod, "/pod/swap", method="POST")[0] == 404
    assert asked(pod, "/pod/status", method="POST")[0] == 405


def test_a_secret_is_proved_by_a_salted_hash(pod: Pod) -> None:
    salt = secrets.token_bytes(32)
    status, answer = asked(pod, f"/pod/proof?salt={salt.hex()}")
    assert status == 200
    assert answer["proofs"]["HUB_TOKEN"] == hashlib.sha256(salt + TOKEN.encode()).hexdigest()
    assert answer["unset"] == ["ABSENT"] and answer["proofs"]["ABSENT"] is None
    assert answer["too_short"] == ["API_KEY"] and answer["proofs"]["API_KEY"] is None  # 13 characters could be guessed


@pytest.mark.parametrize("salt", ["", "00", "zz" * 32, "0" * 65])
def test_a_salt_must_be_fresh_and_long(pod: Pod, salt: str) -> None:
    assert asked(pod, f"/pod/proof?salt={salt}")[0] == 400


def test_what_could_be_guessed_is_not_hashed() -> None:
    salt = "0" * 64
    _, answer = proof_answer(["LONG", "SHORT"], {"LONG": "x" * SHORTEST, "SHORT": "x" * (SHORTEST - 1)}, salt)
    assert answer["proofs"] == {"LONG": salted(bytes.fromhex(salt), "x" * SHORTEST), "SHORT": None}


def test_a_bridge_by_itself_has_no_pod_to_tell_of() -> None:
    import asyncio

    from pod.bridge.errors import ApiError
    from pod.bridge.pod_relay import PodRelay
    from pod.bridge.upstream import Upstream

    with pytest.raises(ApiError) as refusal:
        asyncio.run(PodRelay(Upstream("http://127.0.0.1:9"), False).relay(None))  # type: ignore[arg-type]
    assert refusal.value.status == 404
