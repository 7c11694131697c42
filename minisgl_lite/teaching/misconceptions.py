"""What people believe wrongly about a KV cache, by tag: pages attack it, checks name it."""

from __future__ import annotations

MISCONCEPTIONS: dict[str, str] = {
    "m01": "8 in free_slots is page 8, or one token's place",
    "m02": "page_table holds page ids; a request's pages must be adjacent, or ascend",
    "m03": "out_loc is a row of the table, or the whole context",
    "m04": "each decoded token takes a page, or a prompt's pages are the last it takes",
    "m05": "the token just sampled has its K and V already",
    "m06": "a prompt that is cached whole costs nothing",
    "m07": "a match reserves what it found; a lock keeps other readers out",
    "m08": "the radix cache stores or copies K and V; prompts of one batch share their computation",
    "m09": "a freed slot is set to zero, and what stands in a free slot can do harm",
    "m10": "slot 5 holds the same K and V in every layer; each layer has a table of its own",
    "m11": "bigger pages are always faster",
    "m12": "a prefix can match in the middle of a prompt",
    "m13": "paging makes a single request faster",
    "m14": "the dummy page is one of the N that the scheduler manages",
}
"""The tags of quick questions, planted wrong answers and verdicts."""
