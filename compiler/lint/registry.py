"""All rules, one line each: the file below `compiler/lint/rules`, families in alphabetical order, codes in order.

A rule that has no line here does not run; a test compares the lines with the files.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from types import ModuleType
from typing import cast

from compiler.lint.rule import Rule, RuleModule

FILES = (
    "clt/clt001_client_variable_in_pod",
    "clt/clt002_client_name_ignores_window",
    "clt/clt003_million_suffix_missing",
    "clt/clt004_client_name_promises_million",
    "ctx/ctx001_window_above_native",
    "ctx/ctx002_yarn_on_model_without_rule",
    "ctx/ctx003_yarn_where_engine_ignores_it",
    "ctx/ctx004_long_window_variable_alone",
    "ctx/ctx005_yarn_factor_unlike_window",
    "ctx/ctx006_million_suffix_on_smaller_window",
    "ctx/ctx007_batch_too_wide_for_agents",
    "ctx/ctx008_batch_beyond_preallocated_buffer",
    "ctx/ctx009_wide_batch_on_sliding_window",
    "ctx/ctx010_batch_width_refused",
    "ctx/ctx011_block_larger_than_batch",
    "ctx/ctx012_unchunked_prefill_at_long_window",
    "ctx/ctx013_fewer_sequences_than_sessions",
    "ctx/ctx014_step_width_left_to_engine",
    "dep/dep001_no_cuda_pin",
    "dep/dep002_cuda_pinned_twice",
    "dep/dep003_cuda_pin_below_engine",
    "dep/dep004_exact_pin_excludes_newer_hosts",
    "dep/dep005_no_price_ceiling",
    "dep/dep006_price_above_ceiling",
    "dep/dep007_price_out_of_date",
    "dep/dep008_disk_too_small",
    "dep/dep009_store_larger_than_host_memory",
    "dep/dep010_volume_binds_data_center",
    "dep/dep011_secrets_on_community_hosts",
    "dep/dep012_too_many_variables",
    "dep/dep013_request_too_large",
    "dep/dep014_registry_without_credential",
    "dep/dep015_unknown_data_center",
    "dep/dep016_payload_without_source",
    "dep/dep017_limit_without_rent",
    "eng/eng001_option_unknown_to_release",
    "eng/eng002_option_removed",
    "eng/eng003_value_not_among_choices",
    "eng/eng004_name_unknown_to_registry",
    "eng/eng005_value_of_wrong_type",
    "eng/eng006_broken_json",
    "eng/eng007_unknown_json_key",
    "eng/eng008_option_set_twice",
    "eng/eng009_modelled_setting_in_engine_args",
    "eng/eng010_option_that_podwright_decides",
    "eng/eng011_token_among_options",
    "eng/eng012_deprecated_option",
    "eng/eng013_broken_cuda_home",
    "eng/eng014_expandable_segments",
    "eng/eng015_libraries_on_loader_path",
    "eng/eng016_offline_by_hand",
    "eng/eng017_variable_unknown_to_release",
    "eng/eng018_emergency_lever_in_spec",
    "eng/eng019_flashinfer_sampler_forced",
    "eng/eng020_snapshot_of_another_release",
    "eng/eng021_switch_written_as_word",
    "eng/eng022_rules_not_checked_on_release",
    "evd/evd001_choice_without_reason",
    "evd/evd002_evidence_superseded",
    "evd/evd003_evidence_rejects_value",
    "evd/evd004_evidence_of_another_setup",
    "hwr/hwr001_no_peer_access_unknown_to_nccl",
    "hwr/hwr002_nccl_settings_lost_in_workers",
    "hwr/hwr003_custom_all_reduce_without_peer_access",
    "hwr/hwr004_idle_gpus",
    "hwr/hwr005_more_gpus_than_exist",
    "hwr/hwr006_pipeline_stages_wait",
    "hwr/hwr007_numa_binding_in_container",
    "hwr/hwr008_driver_floor_too_low",
    "hwr/hwr009_card_shared_with_desktop",
    "hwr/hwr010_gpu_id_misspelled",
    "hwr/hwr011_cuda_memory_above_card",
    "hwr/hwr012_one_card_would_do",
    "hwr/hwr013_peer_access_over_pcie_unproven",
    "ign/ign001_unused_ignore",
    "ign/ign002_unknown_ignored_code",
    "ign/ign003_ignored_refusal",
    "img/img001_base_image_without_digest",
    "img/img002_moving_tag",
    "img/img003_preview_engine",
    "img/img004_release_without_lock",
    "img/img005_recipe_without_base",
    "img/img006_unknown_extra",
    "img/img007_fast_tokenizer_without_package",
    "img/img008_hash_without_module",
    "img/img009_image_without_registry",
    "img/img010_secret_in_build",
    "img/img011_engine_started_in_build",
    "img/img012_system_packages_by_pip",
    "img/img013_package_lists_kept",
    "img/img014_profile_before_engine",
    "img/img015_torch_backend_guessed",
    "img/img016_wrong_package_name",
    "img/img017_everything_in_one_layer",
    "img/img018_weights_in_image",
    "img/img019_foreign_entrypoint",
    "img/img020_flashinfer_of_two_versions",
    "kvc/kvc001_fp8_cache_without_kernel",
    "kvc/kvc002_fp8_cache_on_ampere",
    "kvc/kvc003_fp8_cache_with_speculation_on_ada",
    "kvc/kvc004_turboquant_with_speculation",
    "kvc/kvc005_turboquant_where_it_cannot_run",
    "kvc/kvc006_turboquant_for_agents",
    "kvc/kvc007_nvfp4_cache_without_kernel",
    "kvc/kvc008_checkpoint_chooses_cache_type",
    "kvc/kvc009_states_kept_for_every_block",
    "kvc/kvc010_state_cache_settings_refused",
    "kvc/kvc011_prefix_caching_off",
    "kvc/kvc012_prefix_cache_cannot_hit",
    "kvc/kvc013_native_offload_of_a_hybrid",
    "kvc/kvc014_store_chunk_unlike_block",
    "kvc/kvc015_store_port_taken",
    "kvc/kvc016_connector_unfit_for_layers",
    "kvc/kvc017_prefix_cache_promised_in_vain",
    "kvc/kvc018_replicas_halve_the_cache",
    "kvc/kvc019_draft_cannot_share_cache_type",
    "kvc/kvc020_fp8_latent_cache_fault",
    "kvc/kvc021_block_size_without_kernel",
    "mdl/mdl001_tool_parser_of_another_family",
    "mdl/mdl002_reasoning_parser_missing_or_wrong",
    "mdl/mdl003_parser_unknown_to_release",
    "mdl/mdl004_tool_choice_half_configured",
    "mdl/mdl005_tokenizer_not_replaced",
    "mdl/mdl006_engine_too_old_for_model",
    "mdl/mdl007_width_not_divisible",
    "mdl/mdl008_expert_parallel_cannot_split",
    "mdl/mdl009_claude_name_served_first",
    "mdl/mdl010_media_limits_unfit",
    "mdl/mdl011_offloaded_table_cannot_run",
    "mdl/mdl012_pool_too_small_for_two_windows",
    "mdl/mdl013_host_memory_too_small",
    "mdl/mdl015_expert_slice_crosses_groups",
    "mdl/mdl016_facts_contradict_each_other",
    "mem/mem001_window_does_not_fit",
    "mem/mem002_memory_is_tight",
    "mem/mem003_more_sequences_than_state_blocks",
    "mem/mem004_utilization_above_what_holds",
    "mem/mem005_utilization_lowered_for_nothing",
    "mem/mem006_budget_taken_for_consumption",
    "mem/mem007_fixed_cache_without_measurement",
    "mem/mem008_no_room_for_two_prefills",
    "mem/mem009_dense_model_beside_wsl2_tax",
    "mem/mem010_speculation_index_outside_budget",
    "mem/mem011_vision_tower_loaded_for_text",
    "mem/mem012_thin_margin_of_blackwell_hybrid",
    "mem/mem013_host_memory_not_pinned_under_wsl2",
    "mem/mem014_wide_batch_beside_heavy_experts",
    "net/net001_port_taken_twice",
    "net/net002_port_of_official_nginx",
    "net/net003_port_of_other_service",
    "net/net004_silent_prefill_behind_proxy",
    "net/net005_pings_too_rare",
    "net/net006_client_name_not_served",
    "net/net007_cached_tokens_not_reported",
    "net/net008_effort_ignored_without_bridge",
    "net/net009_watchdog_shorter_than_start",
    "pin/pin001_checkpoint_not_pinned",
    "pin/pin002_tokenizer_not_pinned",
    "pin/pin003_patch_without_checksum",
    "pin/pin004_extra_not_pinned",
    "pin/pin005_remote_code_not_pinned",
    "qnt/qnt001_card_too_old_for_weights",
    "qnt/qnt002_four_bit_activations_without_units",
    "qnt/qnt003_computed_wider_than_stored",
    "qnt/qnt004_expert_kernels_refused",
    "qnt/qnt005_humming_without_its_cuda",
    "qnt/qnt006_attention_kernels_forced",
    "qnt/qnt007_stochastic_rounding_refused",
    "qnt/qnt008_state_kernel_options_refused",
    "qnt/qnt009_float16_state_without_rounding",
    "qnt/qnt010_gptq_without_tuned_kernels",
    "qnt/qnt011_nf4_experts",
    "qnt/qnt012_graphs_given_away",
    "qnt/qnt013_setting_without_effect",
    "qnt/qnt014_name_hides_bytes_read",
    "qnt/qnt015_nvfp4_experts_without_kernel",
    "qnt/qnt016_allocator_settings_with_marlin",
    "qnt/qnt017_attention_backend_cannot_serve",
    "qnt/qnt018_number_type_refused",
    "qnt/qnt019_forced_method_unlike_checkpoint",
    "sec/sec001_endpoint_without_key",
    "sec/sec002_secret_in_clear",
    "sec/sec003_reserved_variable",
    "sec/sec004_secret_name_refused",
    "sec/sec005_hub_token_missing",
    "sec/sec006_journal_may_be_public",
    "sec/sec007_secret_in_artifact",
    "sec/sec008_unsigned_publication",
    "sec/sec009_compile_cache_unsealed",
    "spd/spd001_speculation_found_harmful",
    "spd/spd002_speculation_never_measured",
    "spd/spd003_async_scheduling_with_draft_method",
    "spd/spd004_thinking_budget_refused",
    "spd/spd005_v2_runner_forced",
    "spd/spd006_method_unknown_to_release",
    "spd/spd007_draft_head_built_as_quantized",
    "spd/spd008_draft_head_missing",
    "spd/spd009_ngram_for_several_sessions",
    "spd/spd010_draft_not_locked",
    "spd/spd011_draft_model_missing",
    "spd/spd012_draft_fault_of_this_release",
    "spd/spd013_draft_depth_unset",
    "spd/spd014_draft_shape_refused",
)


@dataclasses.dataclass(frozen=True, slots=True)
class RegisteredRule:
    """One rule with its identity, its page (the docstring of its module) and its check.

    Rules of the stage `ignores` have no check over a subject: the runner asks them about `ignore:` entries.
    """

    rule: Rule
    page: str
    module: ModuleType

    @property
    def checked(self) -> RuleModule:
        """The module as a rule over a subject."""
        return cast("RuleModule", self.module)


@functools.cache
def rules() -> tuple[RegisteredRule, ...]:
    """All registered rules, ordered by code."""
    return tuple(sorted((_registered(file) for file in FILES), key=lambda r: r.rule.code))


def rule_by_code(code: str) -> RegisteredRule | None:
    """The rule with that code; None when no rule has it."""
    return next((r for r in rules() if r.rule.code == code), None)


def _registered(file: str) -> RegisteredRule:
    module = importlib.import_module("compiler.lint.rules." + file.replace("/", "."))
    return RegisteredRule(cast("RuleModule", module).RULE, module.__doc__ or "", module)
