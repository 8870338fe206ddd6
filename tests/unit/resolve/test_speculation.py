"""The engine's speculative JSON from the profile's choice, and the drafts to fetch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from compiler.plan.core import HubFile, Plan
from compiler.resolve import resolve_plan
from compiler.resolve.speculation import DEFAULT_TOKENS
from tests.support import REMOVE, specset

SHA = "0123456789abcdef0123456789abcdef01234567"


def plan(speculation: object) -> Plan:
    return resolve_plan(specset("nemotron-ada", {"profile": {"speculation": speculation}}))


def config(of: Plan) -> dict[str, Any] | None:
    argv = of.engine.argv
    return json.loads(argv[argv.index("--speculative-config") + 1]) if "--speculative-config" in argv else None


@pytest.mark.parametrize("chosen", [REMOVE, {"method": "off"}, {"method": "off", "reason": "Loses."}])
def test_off(chosen: object) -> None:
    decided = plan(chosen)
    assert (config(decided), decided.engine.speculation, decided.engine.drafts) == (None, "off", ())
    (decision,) = [d for d in decided.decisions if d.route == "speculation.method"]
    assert (decision.value, decision.origin) == ("off", "default" if chosen == REMOVE else "profile")
    assert decision.reason


@pytest.mark.parametrize(("chosen", "expected"), [
    ({"method": "mtp"}, {"method": "mtp", "num_speculative_tokens": DEFAULT_TOKENS["mtp"]}),
    ({"method": "mtp", "tokens": 5}, {"method": "mtp", "num_speculative_tokens": 5}),
    ({"method": "ngram"}, {"method": "ngram", "num_speculative_tokens": 12, "prompt_lookup_min": 2, "prompt_lookup_max": 16}),
    ({"method": "ngram", "lookup_min": 4, "lookup_max": 8}, {"method": "ngram", "num_speculative_tokens": 12, "prompt_lookup_min": 4, "prompt_lookup_max": 8}),
    ({"method": "dspark", "draft": {"repo": "a/b", "revision": SHA}}, {"method": "dspark", "num_speculative_tokens": 8, "model": "a/b", "revision": SHA}),
    ({"method": "eagle3", "draft": {"repo": "a/b"}}, {"method": "eagle3", "num_speculative_tokens": 3, "model": "a/b"}),
])  # fmt: skip
def test_methods(chosen: dict[str, object], expected: dict[str, object]) -> None:
    decided = plan(chosen)
    assert config(decided) == expected
    assert decided.engine.speculation == expected["method"]
    draft = chosen.get("draft")
    assert [d.repo for d in decided.engine.drafts] == (["a/b"] if draft else [])


def test_draft_takes_the_locked_commit() -> None:
    from compiler.load import load_specset
    from compiler.schema.lock import LockedRepo, LockSpec
    from tests.support import SPECS, ChangedStore

    class Locked(ChangedStore):
        def lock(self, profile: str) -> tuple[LockSpec, list[Any]]:
            return LockSpec(kind="lock", repos={"a/b": LockedRepo(revision=SHA, size=1000, safetensors=None)}, resolved=None), []

    specs, _ = load_specset(Locked([SPECS], "nemotron-ada", {"profile": {"speculation": {"method": "dspark", "draft": {"repo": "a/b"}}}}), "nemotron-ada")
    assert specs is not None
    decided = resolve_plan(specs)
    assert decided.engine.drafts == (HubFile("a/b", SHA, "draft model of dspark"),)
    assert (config(decided) or {})["revision"] == SHA


def both(section: object, written: object, place: str = "profile") -> Plan:
    changes: dict[str, dict[str, object]] = {"profile": {"speculation": section}}
    changes.setdefault(place, {})["engine_args"] = {"speculative-config": {"value": written, "reason": "A test."}}
    return resolve_plan(specset("nemotron-ada", changes))


def conflicts(of: Plan) -> dict[str, str]:
    return {d.route: d.value for d in of.decisions if d.route.startswith("speculation.conflict")}


EXTRA = {"quantization": "fp8", "draft_tensor_parallel_size": 1, "nested": {"a": 1}}


@pytest.mark.parametrize("written", [EXTRA, json.dumps(EXTRA)])
@pytest.mark.parametrize("place", ["profile", "model"])
def test_engine_args_add_keys_to_the_section(written: object, place: str) -> None:
    decided = both({"method": "mtp", "tokens": 2, "reason": "Wins."}, written, place)
    assert config(decided) == {"method": "mtp", "num_speculative_tokens": 2, **EXTRA}
    assert conflicts(decided) == {}
    (decision,) = [d for d in decided.decisions if d.route == "engine.speculative_config"]
    assert "Wins." in decision.reason and "draft_tensor_parallel_size, nested, quantization" in decision.reason


def test_section_wins_over_engine_args_and_the_conflict_is_a_decision() -> None:
    decided = both({"method": "mtp", "tokens": 2}, {"method": "mtp", "num_speculative_tokens": 5, "quantization": "fp8"})
    assert config(decided) == {"method": "mtp", "num_speculative_tokens": 2, "quantization": "fp8"}
    assert conflicts(decided) == {"speculation.conflict.num_speculative_tokens": "2"}
    (decision,) = [d for d in decided.decisions if d.route in conflicts(decided)]
    assert "say 5" in decision.reason
    assert decision.where.endswith("#engine_args.speculative-config")


@pytest.mark.parametrize("written", ["x", 7, ("a",)])
def test_what_is_no_mapping_is_a_conflict_as_a_whole(written: object) -> None:
    decided = both({"method": "mtp", "tokens": 2}, written)
    assert config(decided) == {"method": "mtp", "num_speculative_tokens": 2}
    assert list(conflicts(decided)) == ["speculation.conflict"]


def test_section_that_says_off_wins_and_says_so() -> None:
    decided = both({"method": "off"}, {"method": "ngram", "num_speculative_tokens": 4})
    assert (config(decided), decided.engine.speculation, conflicts(decided)) == (None, "off", {"speculation.conflict.method": "off"})


def test_engine_args_alone_are_reported_as_the_method() -> None:
    decided = both(REMOVE, {"method": "ngram", "num_speculative_tokens": 4})
    assert config(decided) == {"method": "ngram", "num_speculative_tokens": 4}
    assert [d.value for d in decided.decisions if d.route == "speculation.method"] == ["ngram"]
