"""Numbers that the GGUF format fixes: tensor types with their blocks, and value types."""

from __future__ import annotations

from typing import NamedTuple

MAGIC = b"GGUF"
VERSIONS = (2, 3)


class BlockType(NamedTuple):
    """``elements`` values are stored together in ``nbytes`` bytes."""

    name: str
    elements: int
    nbytes: int


# The types this package reads, by their number in the file.
TENSOR_TYPES = {
    0: BlockType("F32", 1, 4),
    1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    8: BlockType("Q8_0", 32, 34),
    30: BlockType("BF16", 1, 2),
}

# Names of others that files in the field use, for the error message.
FOREIGN_TYPES = {
    6: "Q5_0",
    7: "Q5_1",
    9: "Q8_1",
    10: "Q2_K",
    11: "Q3_K",
    12: "Q4_K",
    13: "Q5_K",
    14: "Q6_K",
    15: "Q8_K",
    16: "IQ2_XXS",
    20: "IQ4_NL",
    23: "IQ4_XS",
    39: "MXFP4",
}

# Metadata values of fixed size: number in the file -> struct code.
SCALARS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}
STRING = 8
ARRAY = 9
