from __future__ import annotations

from typing import Any

import torch


def page_bytes(config: dict[str, Any], ranks: int, page_size: int, dtype: str) -> int:
    heads = config.get("num_key_value_heads", config["num_attention_heads"])
    local_heads = -(-heads // ranks)
    head_dim = config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    numbers = 2 * config["num_hidden_layers"] * page_size * local_heads * head_dim
    return numbers * getattr(torch, dtype).itemsize


def reference(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    page = page_bytes(config, len(free), page_size, dtype)
    return max(0, min(free) // page - 1)


def by_trying(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    """Makes pools without memory, larger and larger, until one does not fit any more."""
    heads = config.get("num_key_value_heads") or config["num_attention_heads"]
    while heads % len(free) and len(free) % heads:
        heads += 1
    local_heads = max(1, heads // len(free))
    head_dim = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]

    def fits(pages: int) -> bool:
        shape = (2, config["num_hidden_layers"], pages + 1, page_size, local_heads, head_dim)
        pool = torch.empty(shape, dtype=getattr(torch, dtype), device="meta")
        return all(pool.nbytes <= memory for memory in free)

    high = 1
    while fits(high):
        high *= 2
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def no_dummy_page(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    return min(free) // page_bytes(config, len(free), page_size, dtype)


def k_alone(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    return reference(config, [2 * memory for memory in free], page_size, dtype)


def query_heads(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    heads = config["num_attention_heads"]
    return reference(config | {"num_key_value_heads": heads}, free, page_size, dtype)


def one_layer(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    return reference(config | {"num_hidden_layers": 1}, free, page_size, dtype)


def all_heads_on_each_rank(
    config: dict[str, Any], free: list[int], page_size: int, dtype: str
) -> int:
    return reference(config, [min(free)], page_size, dtype)


def heads_rounded_down(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    heads = config.get("num_key_value_heads", config["num_attention_heads"])
    few = {"num_key_value_heads": max(1, heads // len(free))}
    return reference(config | few, [min(free)], page_size, dtype)


def memory_summed(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    page = page_bytes(config, 1, page_size, dtype)
    return max(0, sum(free) // page - 1)


def first_rank_decides(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    return reference(config, [free[0]] * len(free), page_size, dtype)


def always_two_bytes(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    return reference(config, free, page_size, "bfloat16")


def tokens(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    return reference(config, free, page_size, dtype) * page_size


def pages_of_one(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    return reference(config, free, 1, dtype)


def head_dim_computed(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    without = {key: value for key, value in config.items() if key != "head_dim"}
    return reference(without, free, page_size, dtype)


def needs_every_entry(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    config["num_key_value_heads"] + config["head_dim"]
    return reference(config, free, page_size, dtype)


def below_zero(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> int:
    return min(free) // page_bytes(config, len(free), page_size, dtype) - 1


def a_float(config: dict[str, Any], free: list[int], page_size: int, dtype: str) -> float:
    return min(free) / page_bytes(config, len(free), page_size, dtype) - 1


RIGHT = [reference, by_trying]
WRONG = {
    no_dummy_page: "one is the dummy page",
    k_alone: "the engine takes",
    query_heads: "the engine takes",
    one_layer: "the engine takes",
    all_heads_on_each_rank: "the engine takes",
    heads_rounded_down: "the engine takes",
    memory_summed: "the engine takes",
    first_rank_decides: "the rank that has least",
    always_two_bytes: "the engine takes",
    tokens: "the engine takes",
    pages_of_one: "the engine takes",
    head_dim_computed: "the engine takes",
    needs_every_entry: "raised KeyError",
    below_zero: "no page is left for the scheduler",
    a_float: "a whole number is wanted",
}
