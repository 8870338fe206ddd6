"""Counters out of texts that a real vLLM 0.27.1 published (fixtures/), and out of what is none."""

from __future__ import annotations

from pathlib import Path

from pod.watchdog.metrics import Counters, EngineCounters, counters

FIXTURES = Path(__file__).parent / "fixtures"


def test_real_text_in_mid_prefill() -> None:
    found = counters((FIXTURES / "metrics-0.27.1-prefill.txt").read_text())
    assert (found.running, found.waiting, found.prompt_tokens, found.generation_tokens, found.aborted) == (1, 1, 50, 4, 0)
    assert 0.0 < found.kv_usage < 0.05
    assert found.line() == f"Running: 1 reqs, Waiting: 1 reqs, KV cache usage: {found.kv_usage:.1%}"


def test_between_two_chunks_of_a_prefill_only_the_cache_moves() -> None:
    first, second = (counters((FIXTURES / f"metrics-0.27.1-{name}.txt").read_text()).engines["0"] for name in ("prefill", "prefill-later"))
    assert first != second
    assert first.kv_usage < second.kv_usage
    assert (first.prompt_tokens, first.generation_tokens, first.iterations) == (second.prompt_tokens, second.generation_tokens, second.iterations)


def test_engines_of_a_data_parallel_group_are_kept_apart() -> None:
    text = "\n".join(f'vllm:num_requests_running{{engine="{i}",model_name="m"}} {i + 1}.0' for i in range(3))
    found = counters(text + '\nvllm:kv_cache_usage_perc{engine="2",model_name="m"} 0.5\n')
    assert [e.running for e in found.engines.values()] == [1.0, 2.0, 3.0]
    assert (found.running, found.kv_usage) == (6, 0.5)


def test_aborts_are_finished_requests_too() -> None:
    text = ('vllm:request_success_total{engine="0",finished_reason="stop",model_name="m"} 3.0\n'
            'vllm:request_success_total{engine="0",finished_reason="abort",model_name="m"} 2.0\n')
    assert counters(text).engines == {"0": EngineCounters(finished=5.0, aborted=2.0)}


def test_what_is_no_metrics_gives_nothing() -> None:
    for text in ("", "<html>502</html>", "vllm:num_requests_running", 'vllm:num_requests_running{engine="0"} NaN', "# HELP x\n" * 5):
        assert counters(text) == Counters()
    assert Counters().kv_usage == 0.0


def test_exponents_and_half_a_text() -> None:
    assert counters('vllm:prompt_tokens_total{engine="0"} 1.5e+06\nvllm:generation_tok').prompt_tokens == 1_500_000
    assert counters('vllm:prompt_tokens_total{engine="0"} 1.2.3\n') == Counters()
