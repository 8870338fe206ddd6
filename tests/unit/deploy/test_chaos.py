"""A deploy through weather: random failures anywhere, random lives of pods, Ctrl-C at random moments. What must hold always:

at the end at most one pod of ours exists; if the command says that it serves, one does and is followed; otherwise nothing bills, or the
command has said so and the next command finds it; no request is made twice in a row for what may exist already.
"""

from __future__ import annotations

import json
import os
import random

import pytest

from compiler.deploy.naming import is_name_of
from compiler.deploy.state_file import StateFile
from tests.runpod_stub import CAPACITY, Course, RunpodStub, problem
from tests.unit.deploy.conftest import ADA, L40S, Deploy
from tests.unit.deploy.servers import Reply, Request

# More of them with PODWRIGHT_CHAOS=2000.
SEEDS = int(os.environ.get("PODWRIGHT_CHAOS", "25"))
ENDS = ["serves"] * 6 + ["stuck", "exits", "errors", "vanishes", "silent", "sick"]


def weather(rng: random.Random, stub: RunpodStub) -> None:
    """Lives and failures for one run."""
    for _ in range(6):
        end = rng.choice(ENDS)
        lines = [(120.0, "CUDA error: unspecified launch failure")] if end == "sick" else []
        stub.courses.append(Course(cuda=rng.choice(["13.0", "13.0", "13.0", "12.8", None]), gpus=rng.choice([None, None, None, 0]), end=end, container=lines, serves=rng.uniform(100, 900)))

    def after_all(request: Request) -> Reply | None:
        if request.method == "POST" and request.path == "/v2/pods":
            stub.created(json.loads(request.body))
        if request.method == "DELETE" and (pod := stub.pods.get(request.path.rsplit("/", 1)[-1])):
            pod.terminated = True
        return rng.choice([problem(500, "late"), None, Reply(200, b'{"id": "po'), Reply(502, b"<html>", {"Content-Type": "text/html"})])

    answers = [
        lambda r: problem(500, "internal error"), lambda r: problem(503, "maintenance"), lambda r: None, lambda r: Reply(200, b'{"pods": [{"i'), lambda r: Reply(200, b"<html>portal", {"Content-Type": "text/html"}),
        lambda r: Reply(429, problem(429, "slow down").body, {"Retry-After": str(rng.randint(1, 90))}), lambda r: problem(400, CAPACITY), lambda r: problem(403, "no"), lambda r: problem(402, "no money"), after_all, after_all, after_all,
    ]  # fmt: skip
    for _ in range(rng.randint(0, 7)):
        method, path = rng.choice([("POST", "^/v2/pods$"), ("POST", "^/v2/pods$"), ("POST", "^/v2/pods$"), ("GET", "^/v2/pods$"), ("GET", "^/v2/pods/"), ("DELETE", "^/v2/pods/"), ("GET", "/ready$"), ("POST", "/v1/messages$"), ("GET", "/logs$")])
        stub.fault(method, path, rng.choice(answers), times=rng.choice([1, 1, 2, 3]))
    if rng.random() < 0.3:
        moment = stub.clock.now + rng.uniform(0, 900)

        def interrupt(now: float) -> None:
            if now > moment:
                stub.clock.on_sleep = lambda now: None
                raise KeyboardInterrupt

        stub.clock.on_sleep = interrupt


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_is_ever_left_that_nobody_knows_of(deploy: Deploy, stub: RunpodStub, seed: int, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(seed)
    deploy.change(hardware={"runpod_ids": (ADA, L40S)}, deploy={"data_centers": ("EU-SE-1", "EU-RO-1"), "price_ceiling_usd_h": 1.0})
    weather(rng, stub)
    code, err = 130, ""
    try:
        ended = deploy()
        code, err = ended.code, ended.err
    except KeyboardInterrupt:
        err = capsys.readouterr().err
    state = StateFile("nemotron-ada", deploy.folder).read()
    ours = [p for p in stub.living() if is_name_of("podwright-nemotron-ada", p.body["name"])]
    said = f"seed {seed}, exit {code}: {err}"
    assert len(ours) <= 1, said
    if code == 0:
        assert len(ours) == 1 and state.pod is not None and state.pod.id == ours[0].id and stub.serves(ours[0]), said
    elif ours:
        known = state.pod is not None and state.pod.id == ours[0].id
        assert "DPL037" in err and (known or state.intent == ours[0].body["name"]), said
    stub.faults.clear()
    stub.courses.clear()
    stub.clock.on_sleep = lambda now: None
    after = deploy(replace=True)
    left = [p for p in stub.living() if is_name_of("podwright-nemotron-ada", p.body["name"])]
    assert len(left) <= 1, f"{said}\n--- then:\n{after.err}"
