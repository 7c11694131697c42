from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from minisgl_lite.kernel import ahead_of_time as aot

pytestmark = [
    pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed"),
    pytest.mark.skipif(
        os.environ.get("TRITON_INTERPRET") == "1", reason="a process that interprets can't compile"
    ),
]

WIDE_LOAD = re.compile(r"ld\.global\S*\.v4\.b32|ld\.global\S*\.v2\.b64|ld\.global\S*\.b128")
WIDE_STORE = re.compile(r"st\.global\S*\.v4\.b32|st\.global\S*\.v2\.b64|st\.global\S*\.b128")
WIDE_COPY = re.compile(r"cp\.async\.cg\.shared\.global \[[^]]*\], \[[^]]*\], (0x10|16)")


@pytest.mark.parametrize("dtype", aot.DTYPES, ids=str)
@pytest.mark.parametrize("capability", aot.CAPABILITIES, ids=str)
def test_every_kernel_compiles_for_gpus_that_are_not_here(
    capability: tuple[int, int], dtype: torch.dtype
) -> None:
    compiled = list(aot.compile_all([capability], [dtype]))
    print(aot.table(compiled))
    kernels = {"store_kernel", "decode_kernel", "combine_kernel", "extend_kernel"}
    assert {c.kernel for c in compiled} == kernels
    assert {c.shape for c in compiled} == {shape.name for shape in aot.SHAPES}
    for c in compiled:
        assert c.problems() == [], aot.table([c])
        if c.kernel == "store_kernel":  # 16 bytes at a time
            assert WIDE_LOAD.search(c.ptx) and WIDE_STORE.search(c.ptx), c[:4]
        if c.kernel in ("decode_kernel", "extend_kernel") and capability >= (8, 0):
            assert WIDE_COPY.search(c.ptx), c[:4]


def test_every_kernel_of_the_package_is_compiled() -> None:
    """A kernel that nobody lists here would be checked by nobody."""
    from minisgl_lite import kernel

    folder = Path(kernel.__file__).parent
    texts = [path.read_text() for path in folder.glob("*.py")]
    known = {name for text in texts for name in re.findall(r"^def (\w+_kernel)\(", text, re.M)}
    listed = {
        variant.launch.kernel.__name__
        for variant in aot.variants(aot.SHAPES[0], torch.float16, (8, 0))
    }
    assert known == listed


def made_up(capability: tuple[int, int], spilled: int, shared: int) -> aot.Compiled:
    return aot.Compiled("k", "s", "fp16", capability, 4, 255, spilled, shared, "")


def test_spills_and_too_much_shared_memory_are_named() -> None:
    assert made_up((9, 0), 8, 0).problems() == ["spills 8 bytes"]
    assert made_up((7, 5), 8, 65536).problems() == []
    (problem,) = made_up((7, 5), 0, 65537).problems()
    assert problem == "takes 65537 bytes of shared memory, 65536 are allowed"


def test_a_block_that_is_too_large_is_found() -> None:
    """The figures are the compiler's own: a larger block takes more than a T4 has."""
    from minisgl_lite.kernel.triton_paged import Blocks

    variant = next(
        variant
        for variant in aot.variants(aot.SHAPES[1], torch.float32, (7, 5))
        if variant.launch.kernel.__name__ == "decode_kernel"
    )
    larger = variant.launch.constants | {"BLOCK_N": Blocks(16, 64, 4, 1).n}
    launch = variant.launch._replace(constants=larger)
    (problem,) = aot.compile_variant(variant._replace(launch=launch)).problems()
    assert "shared memory" in problem
