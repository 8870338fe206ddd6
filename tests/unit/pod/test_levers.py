"""`VL_*`: what each does to the manifest that is worked by."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from pod.argv import json_of, values_of, with_option
from pod.contract import Fetch, Journal, Manifest, Override, Swap
from pod.levers import LeverError, with_levers

from compiler.resolve.overrides import OVERRIDES
from tests.unit.pod.manifests import example_manifest, with_launch

YARN = {"text_config": {"rope_parameters": {"factor": 4.0, "original_max_position_embeddings": 262144, "rope_type": "yarn"}}}
SPECULATIVE = {"method": "mtp", "num_speculative_tokens": 3}


def manifest(*words: str) -> Manifest:
    """The example with the compiler's whole table of levers and further words in its command line."""
    rows = tuple(Override(o.name, o.pattern, o.setting, None if "." in o.setting else "--" + o.setting.replace("_", "-"), o.effect) for o in OVERRIDES)
    base = example_manifest()
    supervisor = dataclasses.replace(base.supervisor, overrides=rows, journal=Journal("o/j", 25.0, 120.0))
    base = dataclasses.replace(base, supervisor=supervisor)
    return with_launch(base, argv=(*base.engine.launch.argv, *words))


def argv_with(levers: dict[str, str], *words: str) -> tuple[str, ...]:
    return with_levers(manifest(*words), levers).manifest.engine.launch.argv


def test_without_levers_nothing_differs() -> None:
    assert with_levers(manifest(), {"PATH": "/bin"}).manifest == manifest()


@pytest.mark.parametrize(
    ("levers", "option", "values"),
    [({"VL_SEQS": "8"}, "--max-num-seqs", ("8",)), ({"VL_KV": "fp8"}, "--kv-cache-dtype", ("fp8",)), ({"VL_CTX": "4096"}, "--max-model-len", ("4096",)),
     ({"VL_EP": "on"}, "--enable-expert-parallel", ()), ({"VL_EP": "off"}, "--no-enable-expert-parallel", ()),
     ({"VL_STOCHASTIC": "on"}, "--enable-mamba-cache-stochastic-rounding", ()), ({"VL_ASYNC": "off"}, "--no-async-scheduling", ()),
     ({"VL_NUMA": "on"}, "--numa-bind", ()), ({"VL_NUMA_NODES": "0 1"}, "--numa-bind-nodes", ("0", "1"))],
)  # fmt: skip
def test_engine_options(levers: dict[str, str], option: str, values: tuple[str, ...]) -> None:
    assert values_of(argv_with(levers, "--async-scheduling"), option) == values


@pytest.mark.parametrize(("name", "value"), [("VL_SEQS", "8; rm -rf /"), ("VL_BRIDGE", "maybe"), ("VL_MODEL", "nobody")])
def test_a_wrong_value_is_refused_and_not_shown(name: str, value: str) -> None:
    with pytest.raises(LeverError, match=name) as caught:
        with_levers(manifest(), {name: value})
    assert value not in str(caught.value)


def test_every_lever_in_force_is_shown() -> None:
    shown = {lever.name: lever.effect for lever in with_levers(manifest(), {"VL_SEQS": "8", "VL_BRIDGE": "keepalive", "VL_HFOFFLINE": "on", "VL_MTP_N": "2"}).levers}
    assert shown["VL_SEQS"] == "--max-num-seqs 8" and "VL_BRIDGE" in shown and "VL_HFOFFLINE" in shown
    assert shown["VL_MTP_N"] == "changes nothing here", "there is no MTP to deepen"


def yarn(levers: dict[str, str]) -> tuple[Any, Any, Manifest]:
    words = ("--hf-overrides", json.dumps(YARN), "--max-model-len", "1048576")
    found = with_levers(manifest(*words), levers).manifest
    return json_of(found.engine.launch.argv, "--hf-overrides"), values_of(found.engine.launch.argv, "--max-model-len"), found


def test_yarn_off_serves_the_native_window() -> None:
    overrides, window, found = yarn({"VL_YARN": "off"})
    assert overrides == {} and window == ("262144",)
    assert found.engine.context_window == found.bridge.max_prompt_tokens == 262144


def test_another_factor_shortens_the_window() -> None:
    overrides, window, _ = yarn({"VL_YARN_FACTOR": "2.0"})
    assert overrides["text_config"]["rope_parameters"]["factor"] == 2.0 and window == ("524288",)


def test_a_window_of_ones_own_is_what_clients_are_told() -> None:
    found = with_levers(manifest(), {"VL_CTX": "65536"}).manifest
    assert found.engine.context_window == found.bridge.max_prompt_tokens == 65536


def test_speculation_off_takes_draft_and_option_away() -> None:
    base = manifest("--speculative-config", json.dumps(SPECULATIVE))
    base = with_launch(base, fetch=(*base.engine.launch.fetch, Fetch("draft", "o/d", None, None)))
    found = with_levers(base, {"VL_SPEC": "off"}).manifest.engine.launch
    assert values_of(found.argv, "--speculative-config") is None and all(fetch.role != "draft" for fetch in found.fetch)


@pytest.mark.parametrize(
    ("levers", "config"),
    [({"VL_MTP_N": "2"}, {"method": "mtp", "num_speculative_tokens": 2}),
     ({"VL_SPEC": "ngram"}, {"method": "ngram", "num_speculative_tokens": 24, "prompt_lookup_max": 16, "prompt_lookup_min": 2}),
     ({"VL_SPEC": "ngram", "VL_SPEC_N": "12"}, {"method": "ngram", "num_speculative_tokens": 12, "prompt_lookup_max": 16, "prompt_lookup_min": 2}),
     ({"VL_SPEC": "dflash", "VL_DFLASH2_N": "5"}, {"method": "dflash", "model": "z-lab/Qwen3.8-27B-DFlash2", "num_speculative_tokens": 5})],
)  # fmt: skip
def test_speculation(levers: dict[str, str], config: dict[str, Any]) -> None:
    argv = argv_with(levers, "--speculative-config", json.dumps(SPECULATIVE), "--async-scheduling")
    assert json_of(argv, "--speculative-config") == config
    assert "--async-scheduling" not in argv, "an engine that speculates does not schedule ahead"


def test_a_draft_of_ones_own_is_fetched() -> None:
    found = with_levers(manifest(), {"VL_SPEC": "dspark", "VL_DSPARK_MODEL": "me/draft"}).manifest.engine.launch
    assert Fetch("draft", "me/draft", None, None) in found.fetch and json_of(found.argv, "--speculative-config")["model"] == "me/draft"


def test_images_and_videos() -> None:
    argv = argv_with({"VL_MM_IMAGES": "2", "VL_NOVIDEO": "on"}, "--limit-mm-per-prompt", '{"image":4}')
    assert json_of(argv, "--limit-mm-per-prompt") == {"image": 2, "video": 0}
    assert values_of(argv_with({"VL_NOVIDEO": "off"}, "--limit-mm-per-prompt", '{"video":0}'), "--limit-mm-per-prompt") is None


def test_aliases_reach_engine_and_bridge() -> None:
    found = with_levers(manifest(), {"VL_ALIASES": "gpt-4 claude-x[1m]"}).manifest
    assert found.engine.served_names == ("m", "gpt-4", "claude-x[1m]")
    assert values_of(found.engine.launch.argv, "--served-model-name") == ("m", "gpt-4", "claude-x[1m]")


def test_without_bridge_the_engine_takes_the_endpoint() -> None:
    found = with_levers(manifest(), {"VL_BRIDGE": "off"}).manifest
    assert found.bridge.mode == "off" and (found.engine.launch.host, found.engine.launch.port) == ("0.0.0.0", 8080)
    assert values_of(found.engine.launch.argv, "--port") == ("8080",) and values_of(found.engine.launch.argv, "--host") == ("0.0.0.0",)


def test_a_bridge_can_be_put_in_front() -> None:
    off = dataclasses.replace(manifest(), bridge=dataclasses.replace(manifest().bridge, mode="off"))
    found = with_levers(off, {"VL_BRIDGE": "on"}).manifest
    assert found.bridge.mode == "translate" and found.engine.launch.port == 18081
    assert with_levers(manifest(), {"VL_BRIDGE": "keepalive"}).manifest.bridge.mode == "keepalive"


def test_ports_move_for_all_that_take_turns() -> None:
    base = manifest()
    base = dataclasses.replace(base, swap=Swap((dataclasses.replace(base.engine, name="q"),), False))
    found = with_levers(base, {"VL_PORT": "19000", "VL_PROXY_PORT": "9090", "VL_MODEL": "q"})
    assert found.first == "q" and found.manifest.bridge.port == 9090
    assert found.manifest.swap is not None
    for engine in (found.manifest.engine, *found.manifest.swap.others):
        assert engine.launch.port == 19000 and values_of(engine.launch.argv, "--port") == ("19000",)


def test_the_endpoint_listens_where_this_machine_wants_it() -> None:
    environ = {"PODWRIGHT_LISTEN": "127.0.0.1"}
    inside = with_levers(manifest(), environ).manifest
    assert inside.bridge.host == "127.0.0.1" and inside.engine == manifest().engine
    alone = with_levers(manifest(), {**environ, "VL_BRIDGE": "off"}).manifest
    assert alone.engine.launch.host == "127.0.0.1" and values_of(alone.engine.launch.argv, "--host") == ("127.0.0.1",)
    assert with_levers(manifest(), environ).levers == ()


def test_caches_and_journal() -> None:
    assert with_levers(manifest(), {"VL_CACHE": "off"}).manifest.supervisor.compile_caches == {}
    assert with_levers(manifest(), {"VL_JOURNAL": "off"}).manifest.supervisor.journal is None
    journal = with_levers(manifest(), {"VL_JOURNAL_PERIODE": "0"}).manifest.supervisor.journal
    assert journal is not None and journal.period_s == 0.0


def test_every_lever_of_the_compilers_table_acts_somewhere() -> None:
    """The bootstrap's own act through the host's facts and the offline decision."""
    from pod import levers

    known = {*levers._ACTS, *levers._SPECULATIVE, "VL_MODEL"}
    assert {o.name for o in OVERRIDES if o.setting.startswith("runtime.")} <= known


def test_with_option_takes_every_spelling_out() -> None:
    argv = ("x", "--a", "1", "2", "--b=3", "--a=4", "--no-a", "--c")
    assert with_option(argv, "--a", "9") == ("x", "--a", "9", "--b=3", "--c")
    assert with_option(argv, "--d", "9")[-2:] == ("--d", "9")
    assert values_of(argv, "--a") == ("1", "2") and values_of(argv, "--b") == ("3",) and values_of(argv, "--c") == () and values_of(argv, "--z") is None
