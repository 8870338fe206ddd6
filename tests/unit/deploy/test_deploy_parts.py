"""The pure parts of deploy: order of candidates, phases from histories, legal streams, and answers that nobody can rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pod.journal.journal import readable

from compiler.deploy import runpod_graphql, runpod_v1, runpod_v2, troubles
from compiler.deploy.answers import moment, number, rows, text, whole
from compiler.deploy.anthropic_stream import AnthropicStream
from compiler.deploy.candidates import NothingToAsk, candidates, options, usable
from compiler.deploy.clock import Pace
from compiler.deploy.display import duration
from compiler.deploy.naming import http_port, is_name_of, profile_of, unique_name
from compiler.deploy.offer import differences
from compiler.deploy.provider import CudaPin, GpuOffer, LogLine, Pod, PodStatus, Stock, Wanted, cuda_key
from compiler.deploy.troubles import PodTrouble
from compiler.deploy.waiting import fresh
from compiler.deploy.watch import Phase, Ready, Seen, Watch
from tests.runpod_stub import FakeClock, echo_stream
from tests.unit.deploy.conftest import ADA, L40S, Deploy

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12) | st.sampled_from(["RUNNING", "13.0", "2026-11-29T12:00:00Z", "LOW", "8080/http"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "name", "status", "gpu", "count", "env", "ports", "cost", "args", "cmd", "runtime", "createdAt", "machine", "desiredStatus", "dockerArgs", "price", "dataCenters", "cudaVersions", "memory", "x"]), inner, max_size=6),
    max_leaves=20,
)  # fmt: skip


@given(st.dictionaries(st.sampled_from(["id", "name", "status", "gpu", "env", "ports", "cost", "args", "cmd", "entrypoint", "runtime", "createdAt", "machine", "desiredStatus", "dockerArgs", "price", "dataCenters", "cudaVersions", "memory", "secure", "maxCount"]), JSON, max_size=12))
def test_no_answer_breaks_a_parser(row: dict[str, Any]) -> None:
    for parsed in (runpod_v2.pod_of(row), runpod_v2.offer_of(row), runpod_v2.template_of(row), runpod_v1.pod_of(row), runpod_graphql._offer(row), runpod_graphql._template(row)):
        assert parsed is None or parsed.id
    runpod_graphql._fields(row)


def test_values_are_read_as_they_may_come() -> None:
    assert (number("0.74"), number(True), number(float("nan")), number("x"), whole(2.0), whole(2.5)) == (0.74, None, None, None, 2, None)
    assert moment("2026-11-29T12:00:00Z") == moment("2026-11-29T13:00:00+01:00") == moment(1795953600) == moment(1795953600000) == moment("2026-11-29T12:00:00")
    assert (text(" a "), text(""), text(5), text(None), list(rows([1, {"a": 1}, None])), list(rows(None))) == ("a", None, "5", None, [{"a": 1}], [])


# --- candidates


def offer(gpu: str, price: float, centers: dict[str, Stock] | None = None, **more: Any) -> GpuOffer:
    known: dict[str, Any] = {"cuda": {"13.0": True}, "max_count": {"SECURE": 8}} | more
    return GpuOffer(gpu, gpu, 48, Stock.LOW, {"SECURE": price}, centers if centers is not None else {"EU-SE-1": Stock.LOW}, **known)


def test_candidates_keep_the_profiles_order_and_sick_places_go_last(deploy: Deploy) -> None:
    deploy.change(hardware={"runpod_ids": (ADA, L40S), "count": 2}, deploy={"clouds": ("SECURE", "COMMUNITY"), "data_centers": ("EU-SE-1", "EU-RO-1")})
    plan = deploy.wanted.plan
    found = candidates(plan)
    assert [(c.gpu_id, c.cloud, c.data_center) for c in found] == [(g, c, d) for g in (ADA, L40S) for c in ("SECURE", "COMMUNITY") for d in ("EU-SE-1", "EU-RO-1")]
    assert all(c.count == 2 and c.cuda.exact == ("13.0",) for c in found)
    offers = {"SECURE": (offer(ADA, 0.1), offer(L40S, 0.1)), "COMMUNITY": None}
    ordered = options(plan, offers, [found[0].place])  # type: ignore[arg-type]
    assert ordered[-1].candidate == found[0] and ordered[0].candidate == found[1] and ordered[0].price == pytest.approx(0.2)


def test_options_say_why_a_candidate_is_not_asked_for(deploy: Deploy) -> None:
    deploy.change(hardware={"count": 2}, deploy={"price_ceiling_usd_h": 1.0})
    plan = deploy.wanted.plan
    for row, words in ((offer(ADA, 0.51), "$1.02 an hour is above the ceiling"), (offer(ADA, 0.4, max_count={"SECURE": 1}), "at most 1"), (offer(L40S, 0.1), "exact texts"), (GpuOffer(ADA, ADA, 48, Stock.LOW, {}, {}, {}, {}), "not offered")):
        (only,) = options(plan, {"SECURE": (row,)})
        assert only.problem is not None and words in only.problem
        with pytest.raises(NothingToAsk, match="candidate"):
            usable([only])
    (fine,) = options(plan, {"SECURE": (offer(ADA, 0.5),)})
    assert fine.problem is None and fine.cuda_free is True and fine.stock is Stock.LOW  # Exactly the ceiling is not above it.
    (full,) = options(plan, {"SECURE": (offer(ADA, 0.5, {"EU-RO-1": Stock.HIGH}),)})
    assert full.problem is None and full.stock is Stock.NONE  # Stock is advice: it is asked for all the same.


def test_a_pin_is_exact_or_a_floor_and_versions_are_numbers() -> None:
    assert CudaPin(("13.0",)).admits("13.0") and not CudaPin(("13.0",)).admits("13.1") and CudaPin().admits("11.8")
    assert CudaPin(floor="12.2").admits("12.11") and not CudaPin(floor="13.0").admits("12.11") and not CudaPin(floor="13.0").admits("unknown")
    assert cuda_key("12.11") > cuda_key("12.2") > cuda_key("x") and (str(CudaPin(floor="13.0")), str(CudaPin(("13.0", "13.1")))) == (">=13.0", "13.0 or 13.1")


def test_names_belong_to_one_profile() -> None:
    name = unique_name("podwright-ornith-2xa40", "0a1b2c3d")
    assert name == "podwright-ornith-2xa40-0a1b2c" and is_name_of("podwright-ornith-2xa40", name) and profile_of(name) == "ornith-2xa40"
    assert not is_name_of("podwright-ornith-2xa40", "podwright-ornith-2xa40-dspark-0a1b2c") and profile_of("my-pod") is None
    long = "podwright-" + "x" * 50
    assert len(unique_name(long, "0a1b2c")) == 60 and is_name_of(long, unique_name(long, "0a1b2c"))
    assert http_port(Pod("a", "b", PodStatus.RUNNING, fields={"ports": "22/tcp 8081/http 8080/http"})) == 8080 and http_port(Pod("a", "b", PodStatus.RUNNING)) == 8080


def test_differences_leave_out_what_the_provider_adds_and_what_may_be_secret() -> None:
    old = {"image": "a", "env RUNPOD_POD_ID": "x", "env KEEP": "1", "env GONE": "hunter2", "env CHANGED": "hunter3", "registry": ""}
    found = [str(d) for d in differences(old, {"image": "b", "env KEEP": "1", "env CHANGED": "hunter4", "env NEW": "5"})]
    assert found == ["env CHANGED: changed", "env GONE: removed", "env NEW: added", "image: a -> b"]


# --- phases


def watch() -> Watch:
    return Watch("p", "pod1", pin=CudaPin(("13.0",)), gpus=1, stall_s=1800, began=0)


def pod(status: PodStatus, **more: Any) -> Pod:
    return Pod("pod1", "n", status, **({"gpu_count": 1, "cuda": "13.0"} | more))


def lines(source: str, *said: str) -> tuple[LogLine, ...]:
    return tuple(LogLine(str(i), source, words) for i, words in enumerate(said))  # type: ignore[arg-type]


def test_phases_go_forward_only() -> None:
    w = watch()
    history = [
        (0, Seen(pod(PodStatus.PROVISIONING, cuda=None)), Phase.PLACED), (10, Seen(pod(PodStatus.STARTING), lines("system", "Pulling fs layer")), Phase.PULLING),
        (60, Seen(pod(PodStatus.RUNNING)), Phase.BOOTING), (70, Seen(pod(PodStatus.RUNNING), lines("container", "[bootstrap] 12:00:00 gpu NVIDIA L40S")), Phase.BOOTING),
        (80, Seen(pod(PodStatus.RUNNING), lines("container", "Loading safetensors checkpoint shards: 50%"), Ready(False, "loading weights, 12 of 18 GiB")), Phase.LOADING),
        (90, Seen(pod(PodStatus.RUNNING), lines("container", "[bootstrap] 12:00:00 late line")), Phase.LOADING), (100, Seen(pod(PodStatus.RUNNING), (), Ready(True)), Phase.SERVING),
    ]  # fmt: skip
    for now, seen, phase in history:
        assert w.feed(now, seen).phase is phase
    assert w.passed == {Phase.PLACED: 0, Phase.PULLING: 10, Phase.BOOTING: 60, Phase.LOADING: 80, Phase.SERVING: 100}


def journal(kind: str, message: str, **facts: Any) -> str:
    """A line as the runtime's own journal writes it to the container's log."""
    return readable({"at": "2026-11-30T01:02:03.456Z", "kind": kind, "message": message, **facts})


@pytest.mark.parametrize(("seen", "kind"), [
    (Seen(None), troubles.GONE), (Seen(pod(PodStatus.PROVISIONING, cuda="12.8")), troubles.CUDA_MISMATCH), (Seen(pod(PodStatus.RUNNING, gpu_count=0)), troubles.NO_GPU),
    (Seen(pod(PodStatus.EXITED)), troubles.EXITED), (Seen(pod(PodStatus.ERROR), lines("system", "error pulling image: i/o timeout")), troubles.PULL_FAILED),
    (Seen(pod(PodStatus.STARTING), lines("system", "nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0")), troubles.CUDA_MISMATCH),
    (Seen(pod(PodStatus.RUNNING), lines("container", "RuntimeError: The NVIDIA driver on your system is too old (found version 12080)")), troubles.CUDA_MISMATCH),
    (Seen(pod(PodStatus.RUNNING), lines("container", "[bootstrap] 12:00:00 FATAL the driver lists 1 GPUs and the profile needs 2", "[bootstrap] 12:00:00 FIX   delete this pod and create another with 2 x L40S")), troubles.SICK_HOST),
    (Seen(pod(PodStatus.RUNNING), lines("container", journal("fatal", "no such model", code="not-found", fix="check the name", retry_s=None))), troubles.BOOT_FAILED),
    (Seen(pod(PodStatus.EXITED), lines("container", journal("fatal", "the weights are gated", code="gated", fix="x"), journal("spend", "stopped the pod", ok=True))), troubles.BOOT_FAILED),
    (Seen(pod(PodStatus.RUNNING), lines("container", journal("fatal", "CUDA error: unspecified launch failure", code="sick-host", fix="recreate the pod"))), troubles.SICK_HOST),
])  # fmt: skip
def test_a_pod_that_will_not_serve_is_known_at_once(seen: Seen, kind: troubles.TroubleKind) -> None:
    with pytest.raises(PodTrouble) as failure:
        watch().feed(1, seen)
    assert failure.value.kind is kind and "{" not in failure.value.why + failure.value.fix


def test_the_runtimes_journal_is_read() -> None:
    w = watch()
    assert w.feed(1, Seen(pod(PodStatus.RUNNING), lines("container", journal("state", "booting -> booting", before="a")))).phase is Phase.BOOTING
    step = w.feed(2, Seen(pod(PodStatus.RUNNING), lines("container", journal("phase", "weights took 61.2 s", phase="weights", seconds=61.2))))
    assert (step.phase, step.detail) == (Phase.LOADING, "weights took 61.2 s")
    passing = journal("fatal", "the Hub cannot be reached", code="network", fix="wait", retry_s=20)
    w.feed(3, Seen(pod(PodStatus.RUNNING), lines("container", passing)))
    assert w.feed(4, Seen(pod(PodStatus.RUNNING))).detail == "the Hub cannot be reached"
    with pytest.raises(PodTrouble) as failure:
        w.feed(5, Seen(pod(PodStatus.RUNNING), lines("container", journal("fatal", "gated repository", code="gated", fix="accept the licence on its page"))))
    assert failure.value.fix == "accept the licence on its page" and "gated repository" in failure.value.what


def test_old_troubles_in_the_log_of_a_pod_that_serves_are_over() -> None:
    old = lines("container", "No CUDA GPUs are available") + lines("system", *["start container"] * 9)
    assert watch().feed(1, Seen(pod(PodStatus.RUNNING), old, Ready(True))).phase is Phase.SERVING


def test_silence_and_time_run_out() -> None:
    for status, ends in ((PodStatus.PROVISIONING, 600), (PodStatus.STARTING, 2400), (PodStatus.RUNNING, 1800)):
        w = watch()
        w.feed(0, Seen(pod(status)))
        w.feed(ends, Seen(pod(status)))
        with pytest.raises(PodTrouble):
            w.feed(ends + 1, Seen(pod(status)))


def test_log_lines_are_cleaned_of_secrets() -> None:
    w = watch()
    w.feed(1, Seen(pod(PodStatus.RUNNING), lines("container", "token hf_abcdefghijklmnopqrstuvwxyz012345 \x1b[31m")))
    assert "hf_abc" not in str(w.last_lines()) and "\x1b" not in str(w.last_lines())


def test_only_new_lines_of_a_tail_are_taken() -> None:
    a, b, c = lines("container", "a", "b", "c")
    assert fresh((), (a, b)) == (a, b) and fresh((a, b), (a, b, c)) == (c,) and fresh((a,), (b, c)) == (b, c) and fresh((a, b), (a, b)) == ()


# --- streams, time


def streamed(*events: dict[str, Any]) -> AnthropicStream:
    stream = AnthropicStream()
    for event in events:
        for line in (f"event: {event['type']}", f"data: {json.dumps(event)}", ""):
            stream.feed(line)
    stream.flush()
    return stream


def test_a_legal_stream_gives_its_text_and_tokens() -> None:
    stream = AnthropicStream()
    for line in echo_stream({"messages": [{"content": "say hello"}]}).decode().splitlines():
        stream.feed(line)
    assert (stream.flush(), stream.text, stream.output_tokens, stream.stop_reason) == ("", "hello", 4, "end_turn")


START = {"type": "message_start", "message": {}}
OPEN = {"type": "content_block_start", "index": 0, "content_block": {"type": "text"}}
SHUT = {"type": "content_block_stop", "index": 0}
DONE = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
STOP = {"type": "message_stop"}


@pytest.mark.parametrize(("events", "words"), [
    ((), "no message_start"), ((START, OPEN), "without message_stop"), ((OPEN,), "before message_start"), ((START, START), "second message_start"), ((START, {**OPEN, "index": 1}), "out of order"),
    ((START, OPEN, OPEN), "out of order"), ((START, {"type": "content_block_delta", "index": 0, "delta": {}}), "not open"), ((START, OPEN, DONE), "while content block 0 is open"),
    ((START, OPEN, {"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta"}}), "input_json_delta in a text block"), ((START, STOP), "without a stop_reason"),
    ((START, DONE, STOP, DONE), "after message_stop"), (({"type": "error", "error": {"message": "overloaded"}},), "overloaded"), ((START, OPEN, SHUT, DONE), "without message_stop"),
])  # fmt: skip
def test_what_a_strict_client_would_stumble_over(events: tuple[dict[str, Any], ...], words: str) -> None:
    assert words in streamed(*events).problem


def test_an_event_whose_name_and_type_differ_or_that_is_no_json() -> None:
    for data in ('{"type": "ping"}', "{nonsense", "[" * 5000):
        stream = AnthropicStream()
        for line in ("event: message_start", f"data: {data}", ""):
            stream.feed(line)
        assert stream.flush()


def test_requests_are_kept_apart_and_times_are_readable() -> None:
    clock = FakeClock(100.0)
    pace = Pace(clock, 2.0)
    at = []
    for step in (0.0, 0.5, 3.0, 0.0):
        clock.now += step
        pace.wait()
        at.append(clock.now)
    assert at == [100.0, 102.0, 105.0, 107.0]
    assert [duration(s) for s in (5, 65, 7260, 200000, -3)] == ["5 s", "1 min 05 s", "2 h 01 min", "2 d 7 h", "0 s"]


def test_every_trouble_has_its_own_code_and_can_be_said(wanted: Wanted) -> None:
    assert len({k.code for k in troubles.KINDS}) == len({k.name for k in troubles.KINDS}) == len(troubles.KINDS)
    for kind in troubles.KINDS:
        said = PodTrouble(kind, "it failed", profile="p", pod_id="x", lines=("a last line",)).formatted()
        assert "{" not in said and "why:" in said and "fix:" in said and said.startswith("  | a last line")
