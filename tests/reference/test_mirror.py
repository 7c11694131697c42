"""Code written against mini-sglang's managers runs here when the import name is changed.

The table holds names and parameter orders of mini-sglang at commit 20fcd7f; ours may add keyword
parameters, fields and methods after them.
"""

from __future__ import annotations

import importlib
import inspect
from dataclasses import fields, is_dataclass
from typing import Any

import pytest
import torch

# class -> parameters of its constructor in order, then its methods with theirs ("p:" is a property)
CLASSES: dict[str, tuple[str, dict[str, str]]] = {
    "core.SamplingParams": (
        "temperature top_k top_p ignore_eos max_tokens",
        {"p:is_greedy": ""},
    ),
    "core.Req": (
        "input_ids table_idx cached_len output_len uid sampling_params cache_handle",
        {
            "p:remain_len": "",
            "p:extend_len": "",
            "complete_one": "",
            "append_host": "next_token",
            "p:can_decode": "",
        },
    ),
    "core.Batch": (
        "reqs phase",
        {"p:is_prefill": "", "p:is_decode": "", "p:size": "", "p:padded_size": ""},
    ),
    "core.Context": ("page_size", {"p:batch": "", "forward_batch": "batch"}),
    "kvcache.base.BaseKVCachePool": (
        "",
        {
            "k_cache": "index",
            "v_cache": "index",
            "store_kv": "k v out_loc layer_id",
            "p:device": "",
            "p:dtype": "",
            "p:num_layers": "",
        },
    ),
    "kvcache.base.BaseCacheHandle": ("cached_len", {"get_matched_indices": ""}),
    "kvcache.base.SizeInfo": ("evictable_size protected_size", {"p:total_size": ""}),
    "kvcache.base.InsertResult": ("cached_len handle", {}),
    "kvcache.base.MatchResult": ("cuda_handle", {}),
    "kvcache.base.BasePrefixCache": (
        "",
        {
            "lock_handle": "handle unlock",
            "match_prefix": "input_ids",
            "insert_prefix": "input_ids indices",
            "evict": "size",
            "reset": "",
            "p:size_info": "",
            "check_integrity": "",
        },
    ),
    "kvcache.mha_pool.MHAKVCache": (
        "num_kv_heads num_layers head_dim num_pages page_size dtype device",
        {},
    ),
    "kvcache.naive_cache.NaiveCacheHandle": ("", {"get_matched_indices": ""}),
    "kvcache.naive_cache.NaivePrefixCache": ("device", {}),
    "kvcache.radix_cache.RadixTreeNode": (
        "key_fn tic",
        {
            "set_key_value": "key value",
            "set_parent": "parent",
            "p:length": "",
            "p:parent": "",
            "p:value": "",
            "is_root": "",
            "is_leaf": "",
            "get_match_len": "input_ids",
            "split_at": "pos",
            "__lt__": "other",
        },
    ),
    "kvcache.radix_cache.RadixCacheHandle": ("cached_len node", {"get_matched_indices": ""}),
    "kvcache.radix_cache.RadixPrefixCache": (
        "device",
        {"_collect_leave_nodes_for_evict": "", "_tree_walk": "input_ids"},
    ),
    "scheduler.cache.CacheManager": (
        "num_pages page_size page_table type",
        {
            "match_req": "req",
            "p:available_size": "",
            "lock": "handle",
            "unlock": "handle",
            "allocate_paged": "reqs",
            "cache_req": "req *finished",
            "check_integrity": "",
            "lazy_free_region": "",
            "_allocate": "needed_pages",
            "_free": "indices",
            "_page_to_token": "pages",
        },
    ),
    "scheduler.table.TableManager": (
        "max_running_reqs page_table",
        {"p:available_size": "", "allocate": "", "free": "slot"},
    ),
    "scheduler.utils.PendingReq": (
        "uid input_ids sampling_params chunked_req",
        {"p:input_len": "", "p:output_len": ""},
    ),
    "scheduler.prefill.ChunkedReq": (
        "input_ids table_idx cached_len output_len uid sampling_params cache_handle",
        {"append_host": "next_token", "p:can_decode": ""},
    ),
    "scheduler.prefill.PrefillAdder": (
        "token_budget reserved_size cache_manager table_manager",
        {
            "_try_allocate_one": "req",
            "_add_one_req": "pending_req cache_handle table_idx cached_len",
            "try_add_one": "pending_req",
        },
    ),
    "scheduler.prefill.PrefillManager": (
        "cache_manager table_manager decode_manager pending_list",
        {
            "add_one_req": "req",
            "schedule_next_batch": "prefill_budget",
            "abort_req": "uid",
            "p:runnable": "",
        },
    ),
    "scheduler.decode.DecodeManager": (
        "page_size running_reqs",
        {
            "filter_reqs": "reqs",
            "remove_req": "req",
            "abort_req": "uid",
            "p:inflight_tokens": "",
            "schedule_next_batch": "",
            "p:runnable": "",
        },
    ),
    "scheduler.scheduler.ForwardInput": ("batch sample_args input_tuple write_tuple", {}),
    "scheduler.scheduler.Scheduler": (
        "config",
        {
            "overlap_loop": "last_data",
            "normal_loop": "",
            "_process_last_data": "last_data",
            "_process_one_msg": "msg",
            "_free_req_resources": "req",
            "_prepare_batch": "batch",
            "_schedule_next_batch": "",
            "_forward": "forward_input",
        },
    ),
    "engine.engine.ForwardOutput": ("next_tokens_gpu next_tokens_cpu copy_done_event", {}),
    "engine.engine.Engine": ("config", {"forward_batch": "batch args", "shutdown": ""}),
    "engine.graph.GraphRunner": (
        "",
        {
            "can_use_cuda_graph": "batch",
            "pad_batch": "batch",
        },
    ),
    "engine.sample.BatchSamplingArgs": ("temperatures top_k top_p", {}),
    "engine.sample.Sampler": (
        "device vocab_size",
        {"prepare": "batch", "sample": "logits args"},
    ),
    "attention.base.BaseAttnMetadata": ("", {"get_last_indices": "bs"}),
    "attention.base.BaseAttnBackend": (
        "",
        {
            "forward": "q k v layer_id batch",
            "prepare_metadata": "batch",
            "init_capture_graph": "max_seq_len bs_list",
            "prepare_for_capture": "batch",
            "prepare_for_replay": "batch",
        },
    ),
    "distributed.info.DistributedInfo": ("rank size", {"is_primary": ""}),
    "utils.registry.Registry": (
        "type",
        {"register": "name", "supported_names": "", "assert_supported": "names"},
    ),
    "message.UserMsg": ("uid input_ids sampling_params", {}),
    "message.AbortBackendMsg": ("uid", {}),
    "message.DetokenizeMsg": ("uid next_token finished", {}),
    "llm.LLM": ("model_path dtype", {"generate": "prompts sampling_params"}),
}

FUNCTIONS: dict[str, str] = {
    "core.set_global_ctx": "ctx",
    "core.get_global_ctx": "",
    "kvcache.create_kvcache_pool": "model_config num_pages page_size dtype device",
    "kvcache.create_naive_cache": "device",
    "kvcache.create_radix_cache": "device",
    "kvcache.create_prefix_cache": "device type",
    "kernel.store.store_cache": "k_cache v_cache indices k v",
    "kernel.radix.fast_compare_key": "x y",
    "attention.create_attention_backend": "backend config",
    "attention.validate_attn_backend": "backend allow_auto",
    "distributed.info.set_tp_info": "rank size",
    "distributed.info.get_tp_info": "",
    "distributed.info.try_get_tp_info": "",
    "utils.div_even": "a b allow_replicate",
    "utils.div_ceil": "a b",
    "utils.align_ceil": "a b",
    "utils.align_down": "a b",
}

CONFIG_FIELDS = {
    "engine.config.EngineConfig": {
        "model_path": None,
        "tp_info": None,
        "dtype": None,
        "max_running_req": 256,
        "attention_backend": "auto",
        "cuda_graph_bs": None,
        "page_size": 1,
        "max_seq_len_override": None,
        "num_page_override": None,
    },
    "scheduler.config.SchedulerConfig": {"max_extend_tokens": 8192, "cache_type": "radix"},
}


def resolve(name: str) -> Any:
    module, _, item = name.rpartition(".")
    return getattr(importlib.import_module(f"minisgl_lite.{module}"), item)


def parameters(call: Any) -> list[inspect.Parameter]:
    found = inspect.signature(call).parameters.values()
    return [p for p in found if p.name != "self"]


def assert_takes(call: Any, names: str, where: str) -> None:
    """`names` come first, in that order; whatever ours adds can be left out."""
    want = [name.lstrip("*") for name in names.split()]
    got = parameters(call)
    assert [p.name for p in got][: len(want)] == want, where
    for parameter, name in zip(got, names.split(), strict=False):
        assert (parameter.kind is parameter.KEYWORD_ONLY) == name.startswith("*"), where
    for extra in got[len(want) :]:
        optional = extra.default is not extra.empty or extra.kind in (
            extra.VAR_KEYWORD,
            extra.VAR_POSITIONAL,
        )
        assert optional, f"{where}: {extra.name} is required"


@pytest.mark.parametrize("name", CLASSES)
def test_class_has_the_mirrored_names(name: str) -> None:
    constructor, methods = CLASSES[name]
    cls = resolve(name)
    if name.endswith(".Scheduler"):  # ours is handed its engine and its io
        assert_takes(cls, "config engine io", name)
    elif constructor:
        assert_takes(cls, constructor, name)
    for method, names in methods.items():
        if method.startswith("p:"):
            assert isinstance(inspect.getattr_static(cls, method[2:]), property), f"{name}.{method}"
        else:
            assert_takes(getattr(cls, method), names, f"{name}.{method}")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_takes_the_mirrored_parameters(name: str) -> None:
    assert_takes(resolve(name), FUNCTIONS[name], name)


@pytest.mark.parametrize("name", CONFIG_FIELDS)
def test_config_has_the_mirrored_fields_and_defaults(name: str) -> None:
    cls = resolve(name)
    assert is_dataclass(cls)
    ours = {f.name: f.default for f in fields(cls)}
    for field, default in CONFIG_FIELDS[name].items():
        assert field in ours, field
        if default is not None:
            assert ours[field] == default, field


def test_managers_have_the_mirrored_attributes() -> None:
    from minisgl_lite.kvcache.mha_pool import MHAKVCache
    from minisgl_lite.scheduler.cache import CacheManager
    from minisgl_lite.scheduler.decode import DecodeManager
    from minisgl_lite.scheduler.prefill import PrefillManager
    from minisgl_lite.scheduler.table import TableManager

    table = torch.zeros((3, 32), dtype=torch.int32)
    cache, rows, decode = (
        CacheManager(4, 2, table, "radix"),
        TableManager(2, table),
        DecodeManager(2),
    )
    prefill = PrefillManager(cache, rows, decode)
    wanted: list[tuple[Any, str]] = [
        (cache, "free_slots prefix_cache device num_pages page_table page_size"),
        (rows, "_max_running_reqs _free_slots page_table token_pool"),
        (prefill, "cache_manager table_manager decode_manager pending_list"),
        (decode, "page_size running_reqs"),
        (
            cache.prefix_cache,
            "device page_size key_fn empty_tensor root_node evictable_size protected_size",
        ),
        (cache.prefix_cache.root_node, "children ref_count uuid timestamp"),
        (
            MHAKVCache(2, 1, 4, 3, 2, torch.float32, torch.device("cpu")),
            "_kv_buffer _num_layers _k_buffer _v_buffer _device _storage_shape",
        ),
    ]
    for owner, names in wanted:
        for name in names.split():
            assert hasattr(owner, name), f"{type(owner).__name__}.{name}"


def test_scheduler_subpackage_exports_what_mini_sglang_does() -> None:
    scheduler = importlib.import_module("minisgl_lite.scheduler")
    for name in ("Scheduler", "SchedulerConfig"):
        assert hasattr(scheduler, name), name
