"""What a recorder says of an engine before the first frame: settings, tokens, what it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .runs import to_runs

if TYPE_CHECKING:
    from ..kvcache import BaseCacheHandle
    from ..kvcache.radix_cache import RadixTreeNode
    from ..scheduler.scheduler import Scheduler

TokenBytes = Callable[[int], "bytes | None"]
"""Token id -> its bytes, None when nobody knows them."""

Vocab = Mapping[int, "bytes | str"]
"""Token id -> its bytes or text."""


def meta_of(scheduler: Scheduler, *, model: str | None, mode: str | None) -> dict[str, Any]:
    """The ``meta`` of a trace. ``model`` and ``mode`` are found out where they are not given."""
    engine, manager = scheduler.engine, scheduler.cache_manager
    dtype = str(engine.kv_cache.dtype).removeprefix("torch.")
    tokenizer = _tokenizer_of(scheduler)
    return {
        "model": model or _model_name(scheduler),
        "mode": mode or ("exact" if dtype in ("float32", "float64") else "quick"),
        "dtype": dtype,
        "page_size": manager.page_size,
        "num_pages": manager.num_pages,
        "rows": scheduler.table_manager._max_running_reqs,
        "width": manager.page_table.shape[1],
        "cache_type": type(manager.prefix_cache).__name__.removesuffix("PrefixCache").lower(),
        "loop": "overlap" if getattr(scheduler, "overlap", False) else "normal",
        "package": _version(),
        "eos": sorted(scheduler.eos_token_ids),
        "special": sorted(getattr(tokenizer, "special_ids", ())),
        "budget": scheduler.prefill_budget,
        "graph_bs": list(engine.graph_runner.graph_bs_list),
    }


def _model_name(scheduler: Scheduler) -> str:
    loaded = getattr(scheduler.engine, "loaded", None)
    if loaded is not None:
        return str(loaded.source.name)
    config = getattr(scheduler, "config", None)
    return "scripted" if config is None else str(config.model_path)


def _tokenizer_of(scheduler: Scheduler) -> Any:
    """None where the model has no tokenizer, or none that is installed."""
    try:
        return getattr(scheduler, "tokenizer", None)
    except (ValueError, ImportError):
        return None


def _version() -> str:
    import minisgl_lite

    return minisgl_lite.__version__


def token_bytes_of(scheduler: Scheduler, vocab: Vocab | TokenBytes | None) -> TokenBytes:
    """How to get a token's bytes: as the caller says, else by the scheduler's tokenizer, if any."""
    if callable(vocab):
        return vocab
    if vocab is not None:
        words = {k: v.encode() if isinstance(v, str) else v for k, v in vocab.items()}
        return words.get
    return getattr(_tokenizer_of(scheduler), "token_bytes", None) or (lambda token: None)


def node_of(handle: BaseCacheHandle) -> int | None:
    """The number of the radix node that a handle ends with; None for a policy without a tree."""
    node: RadixTreeNode | None = getattr(handle, "node", None)
    return None if node is None else node.uuid


def snapshot_of(scheduler: Scheduler) -> dict[str, Any]:
    """What an engine holds, as the deltas that lead there; empty if nothing has happened yet."""
    manager = scheduler.cache_manager
    free = manager.free_slots.tolist()
    reqs, table, alloc = _requests(scheduler)
    tree = list(_tree(scheduler))
    untouched = free == [page * manager.page_size for page in range(manager.num_pages)]
    if untouched and not reqs and not tree:
        return {}
    snapshot: dict[str, Any] = {"reqs": reqs, "free": {"take": manager.num_pages, "put": free}}
    parts = {"table": table, "tree": tree, "alloc": alloc}
    return snapshot | {name: part for name, part in parts.items() if part}


def _requests(scheduler: Scheduler) -> tuple[dict[int, dict[str, Any]], list[Any], list[Any]]:
    manager = scheduler.cache_manager
    prompts = {p.uid: p for p in scheduler.prefill_manager.pending_list}
    running = scheduler.decode_manager.running_reqs
    reqs: dict[int, dict[str, Any]] = {}
    table, alloc = [], []
    for req in scheduler.live_reqs():
        pending = prompts.pop(req.uid, None)
        state = "chunk" if pending else "decode" if req in running else "prefill"
        ids = pending.input_ids if pending else req.input_ids
        last = -(-req.cached_len // manager.page_size)
        slots = manager.page_table[req.table_idx, : last * manager.page_size].tolist()
        input_len = pending.input_len if pending else req.max_device_len - req.output_len
        reqs[req.uid] = {
            "state": state,
            "row": req.table_idx,
            "cached_len": req.cached_len,
            "device_len": req.device_len,
            "input_len": input_len,
            "max_device_len": input_len + req.output_len,
            "handle_len": req.cache_handle.cached_len,
            "node": node_of(req.cache_handle),
            "ids": ids.tolist(),
            "shown": len(ids) - input_len,
            "reason": None,
        }
        table.append([req.table_idx, 0, to_runs(slots)])
        first = req.cache_handle.cached_len // manager.page_size
        pages = slots[first * manager.page_size :: manager.page_size]
        alloc.append([req.uid, first, last, pages])
    for uid, pending in prompts.items():
        reqs[uid] = {
            "state": "waiting",
            "row": None,
            "cached_len": 0,
            "device_len": pending.input_len,
            "input_len": pending.input_len,
            "max_device_len": pending.input_len + pending.output_len,
            "handle_len": 0,
            "node": None,
            "ids": pending.input_ids.tolist(),
            "shown": 0,
            "reason": None,
        }
    return reqs, table, alloc


def _tree(scheduler: Scheduler) -> list[list[Any]]:
    cache = scheduler.cache_manager.prefix_cache
    ops: list[list[Any]] = []
    for node in cache.nodes() if hasattr(cache, "nodes") else ():
        slots = to_runs(node.value.tolist())
        ops.append(["add", node.uuid, node.parent.uuid, node._key.tolist(), slots, node.timestamp])
        if node.ref_count:
            ops.append(["ref", node.uuid, node.ref_count])
    return ops
