"""Mutants that no check notices: why, one by one. Keys: exercise, line before, line after."""

from __future__ import annotations

EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "step-places",
        "return (torch.tensor(positions, dtype=torch.int32), torch.tensor(out_loc,"
        " dtype=torch.int32))",
        "return (torch.tensor(positions, dtype=torch.int32), torch.tensor(out_loc))",
    ): "the entries come from an int32 tensor, and torch keeps that dtype",
    (
        "paged-attention",
        "new, group = (q.shape[1], q.shape[0] // k_cache.shape[1])",
        "new, group = (q.shape[1], q.shape[0] // v_cache.shape[1])",
    ): "both caches have the same shape",
    (
        "radix-policy",
        "for prefix in self.prefixes(handle):",
        "for prefix in list(self.prefixes(handle))[::-1]:",
    ): "each prefix of the handle is counted once, in whatever order",
    (
        "radix-policy",
        "self.clock = 0",
        "self.clock = 1",
    ): "times are compared with each other only",
    (
        "radix-policy",
        "self.clock = 0",
        "self.clock = -1",
    ): "times are compared with each other only",
    (
        "radix-policy",
        "self.clock += 1",
        "self.clock += 2",
    ): "times are compared with each other only",
    (
        "radix-policy",
        "ends = range(page_size, 1000000, page_size)",
        "ends = range(page_size, 1000001, page_size)",
    ): "no context is so long",
    (
        "radix-policy",
        "ends = range(page_size, 1000000, page_size)",
        "ends = range(page_size, 999999, page_size)",
    ): "no context is so long",
    (
        "radix-policy",
        "break",
        "continue",
    ): "where a prefix is not known, no longer one is: going on finds nothing",
}
"""The same program in other words."""

OVERLOOKED: dict[tuple[str, str, str], str] = {}
"""Mistakes that a check lets through, and why."""
