"""Whatever is asked, the answer is a plan or findings."""

from __future__ import annotations

import contextlib
import io
import json

from hypothesis import given
from hypothesis import strategies as st

from compiler.planning import planned_profile
from compiler.planning.changes import changed_store, of_command_line, parsed_changes
from compiler.planning.comparison import compared
from compiler.planning.printing import print_comparison
from tests.support import specset
from tests.unit.planning.test_changes import SHIPPED

PATHS = (
    "context",
    "engine.max_num_seqs",
    "engine.kv_cache_dtype",
    "engine.model_tag",
    "engine.speculative_config",
    "engine.hf_overrides",
    "engine_args.x",
    "settings",
    "speculation",
    "speculation.method",
    "workload.sessions",
    "container.extras",
    "env.X",
    "secrets[0].env",
    "hardware",
    "hardware.count",
    "hardware.gpu.bandwidth_gb_s",
    "hardware.speed",
    "hardware.speed[0].batch.sessions",
    "hardware.prices[0]",
    "model.architecture.experts",
    "model.architecture.experts_per_token",
    "model.architecture.kv[0].layers",
    "model.quantization.parts[0].bytes_read_per_token",
    "model.weights.loaded",
    "x.y",
)
VALUES = (
    "1",
    "0",
    "-1",
    "1e400",
    "NaN",
    "null",
    "true",
    "[]",
    "{}",
    '{"a": 1}',
    '{"value": null}',
    "",
    "0.5",
    "9" * 30,
    "off",
    "mtp",
    "auto",
    "fp8",
    "2xa40",
    "\u202e",
)


@given(
    profile=st.sampled_from(["nemotron-ada", "ornith-2xa40-dspark", "tiny-cpu"]),
    texts=st.lists(st.builds("{}={}".format, st.sampled_from(PATHS), st.sampled_from(VALUES) | st.text(max_size=8)), max_size=3),
)
def test_any_change_is_planned_or_refused_with_a_finding(profile: str, texts: list[str]) -> None:
    base = planned_profile(SHIPPED, profile)[0]
    assert base is not None
    changes, wrong = parsed_changes(texts, specset(profile))
    store, more = changed_store(SHIPPED, base.specs, changes)
    after, found = planned_profile(store, profile)
    if after is None or wrong or more:
        assert [*wrong, *more, *of_command_line(found, [], changes)]
        return
    comparison = compared(base, after, changes)
    json.dumps(comparison.to_json(lambda findings: [d.to_json() for d in findings]))
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        print_comparison(comparison)
    assert "\u202e" not in printed.getvalue()
