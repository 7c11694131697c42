"""Compile every Triton kernel of the package for GPUs that are not here, and say what it takes.

    python -m minisgl_lite.kernel.ahead_of_time
    python -m minisgl_lite.kernel.ahead_of_time --capability 9.0 --dtype bf16

Needs Triton, and no GPU; a process that interprets kernels (TRITON_INTERPRET=1) can't compile. What
is compiled is what would be launched: each launch is made on meta tensors, and its types, constants
and alignments are read from it, as Triton's launcher would.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .launch import Launch

CAPABILITIES = ((7, 5), (8, 0), (9, 0), (10, 0))
DTYPES = (torch.float16, torch.bfloat16, torch.float32)
TYPE_NAMES = {
    torch.float16: "fp16",
    torch.bfloat16: "bf16",
    torch.float32: "fp32",
    torch.int32: "i32",
    torch.int64: "i64",
}
SHARED_LIMIT = {(7, 5): 64 << 10}
"""Bytes of shared memory that one block may have; 99 KiB where it is not named (8.6, 8.9, 12.0)."""


class Shape(NamedTuple):
    """Heads of a model whose sizes the kernels are compiled for."""

    name: str
    heads: int
    kv_heads: int
    head_dim: int


SHAPES = (Shape("SmolLM2", 9, 3, 64), Shape("Qwen3-0.6B", 16, 8, 128))


class Variant(NamedTuple):
    """One launch, for one GPU."""

    shape: str
    types: str
    capability: tuple[int, int]
    launch: Launch


class Compiled(NamedTuple):
    """One kernel on one GPU. ``spilled``: bytes of stack per thread, spilled registers."""

    kernel: str
    shape: str
    types: str
    capability: tuple[int, int]
    warps: int
    registers: int
    spilled: int
    shared: int
    ptx: str

    def problems(self) -> list[str]:
        """What keeps it from being good enough there, in words."""
        found = []
        if self.spilled and self.capability >= (8, 0):
            found.append(f"spills {self.spilled} bytes")
        limit = SHARED_LIMIT.get(self.capability, 99 << 10)
        if self.shared > limit:
            found.append(f"takes {self.shared} bytes of shared memory, {limit} are allowed")
        return found


def variants(
    shape: Shape, dtype: torch.dtype, capability: tuple[int, int], page_size: int = 16
) -> Iterator[Variant]:
    """Every launch of a decode and a prefill step."""
    from .triton_paged import choose_blocks, decode_launches, extend_launch
    from .triton_store import store_launch

    def meta(*size: int, dtype: torch.dtype = dtype) -> torch.Tensor:
        return torch.empty(size, dtype=dtype, device="meta")

    bs, tokens, pages = 7, 100, 50
    _, heads, kv_heads, dim = shape
    q, k = meta(tokens, heads, dim), meta(tokens, kv_heads, dim)
    v = meta(tokens, (heads + 2 * kv_heads) * dim)[:, -kv_heads * dim :].unflatten(1, (-1, dim))
    cache = meta(pages, page_size, kv_heads, dim)
    rows = cache.flatten(0, 1)
    lengths, bounds = meta(bs, dtype=torch.int32), meta(bs + 1, dtype=torch.int32)
    table = meta(bs, pages, dtype=torch.int32)
    blocks = choose_blocks(dtype, capability)
    scale, types = dim**-0.5, TYPE_NAMES[dtype]
    for index_dtype in (torch.int32, torch.int64):
        launch = store_launch(rows, rows, meta(tokens, dtype=index_dtype), k, v)
        yield Variant(shape.name, f"{types} {TYPE_NAMES[index_dtype]}", capability, launch)
    for launch in decode_launches(
        q[:bs], q[:bs], cache, cache, table, lengths, scale, 8, blocks.decode
    ):
        yield Variant(shape.name, types, capability, launch)
    launch = extend_launch(q, q, cache, cache, table, lengths, bounds, scale, tokens, blocks.extend)
    yield Variant(shape.name, types, capability, launch)


def compile_variant(variant: Variant) -> Compiled:
    """A cubin for ``variant.capability``, which need not be here."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    shape, types, capability, launch = variant
    signature, constants, attributes = _specialise(launch)
    source = ASTSource(
        fn=launch.kernel, signature=signature, constexprs=constants, attrs=attributes
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of defaults that will change
        built = triton.compile(
            source,
            target=GPUTarget("cuda", capability[0] * 10 + capability[1], 32),
            options={"num_warps": launch.warps, "num_stages": launch.stages},
        )
    registers, spilled = _resources(built.asm["cubin"])
    return Compiled(
        launch.kernel.__name__,
        shape,
        types,
        capability,
        launch.warps,
        registers,
        spilled,
        built.metadata.shared,
        built.asm["ptx"],
    )


def _specialise(launch: Launch) -> tuple[dict[str, str], dict[Any, Any], dict[Any, Any]]:
    """Types, constants and alignments: an int of 1 is a constant, a multiple of 16 is noted."""
    signature, constants, attributes = {}, {}, {}
    for i, param in enumerate(launch.kernel.params):
        aligned = [["tt.divisibility", 16]]
        if param.is_constexpr:
            signature[param.name] = "constexpr"
            constants[(i,)] = launch.constants[param.name]
            continue
        value = launch.args[i]
        if isinstance(value, torch.Tensor):
            signature[param.name] = f"*{TYPE_NAMES[value.dtype]}"
            attributes[(i,)] = aligned  # the allocator's, and our own rows', alignment
        elif isinstance(value, float):
            signature[param.name] = "fp32"
        elif value == 1 and not param.do_not_specialize:
            signature[param.name] = "constexpr"
            constants[(i,)] = 1
        else:
            signature[param.name] = "i32" if value < 2**31 else "i64"
            if value % 16 == 0 and not param.do_not_specialize:
                attributes[(i,)] = aligned
    return signature, constants, attributes


def _resources(cubin: bytes) -> tuple[int, int]:
    """Registers and stack bytes per thread, as the tool that comes with Triton reads them."""
    import triton

    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        text = subprocess.run(
            [tool, "-res-usage", file.name], capture_output=True, text=True, check=True
        ).stdout
    found = re.search(r"REG:(\d+) STACK:(\d+)", text)
    assert found is not None, text
    return int(found[1]), int(found[2])


def compile_all(
    capabilities: Sequence[tuple[int, int]] = CAPABILITIES,
    dtypes: Sequence[torch.dtype] = DTYPES,
) -> Iterator[Compiled]:
    for capability in capabilities:
        for dtype in dtypes:
            for shape in SHAPES:
                for variant in variants(shape, dtype, capability):
                    yield compile_variant(variant)


def table(compiled: list[Compiled]) -> str:
    """One line each, aligned."""
    head = ("kernel", "shape", "types", "GPU", "warps", "registers", "spilled", "shared")
    lines: list[tuple[str, ...]] = [head]
    for c in compiled:
        gpu = ".".join(map(str, c.capability))
        lines.append((c.kernel, c.shape, c.types, gpu, *map(str, c[4:8])))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a kernel is not good enough for a GPU."""
    parser = argparse.ArgumentParser(description="Compile the kernels for GPUs not here.")
    names = {name: dtype for dtype, name in TYPE_NAMES.items() if dtype in DTYPES}
    gpus = {".".join(map(str, capability)): capability for capability in CAPABILITIES}
    parser.add_argument("--capability", nargs="+", choices=list(gpus), default=list(gpus))
    parser.add_argument("--dtype", nargs="+", choices=list(names), default=list(names))
    options = parser.parse_args(arguments)
    capabilities = [gpus[name] for name in options.capability]
    compiled = list(compile_all(capabilities, [names[name] for name in options.dtype]))
    print(table(compiled))
    bad = [(c, problem) for c in compiled for problem in c.problems()]
    for c, problem in bad:
        print(f"{c.kernel} {c.shape} {c.types} on {c.capability}: {problem}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
