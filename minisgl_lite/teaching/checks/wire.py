"""Values on their way between judge and learner: one JSON line each, never a pickle.

A tensor travels as dtype, shape and bytes. What comes from the learner's side is a stranger's:
``unpack`` makes nothing but plain values of it, and nothing larger than the line it stood in.
"""

from __future__ import annotations

import base64
import json
import math
from typing import IO, Any

import torch

from ...utils import Registry

MAX_LINE = 32 * 2**20
"""Bytes of the longest line that is read."""

DTYPES: Registry[torch.dtype] = Registry("tensor dtype")
for _dtype in (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
):  # fmt: skip
    DTYPES.register(str(_dtype).removeprefix("torch."))(_dtype)


class WireError(ValueError):
    """A value that can't travel, or a line that is none of ours."""


class Handle(int):
    """Names an object that stays on the learner's side."""


def pack(value: Any) -> Any:
    """``value`` as JSON has it.

    Raises:
        WireError: a kind of value that doesn't travel, or that holds one; names it.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Handle):
        return {"handle": int(value)}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": str(float(value))}
    if isinstance(value, torch.Tensor):
        return {"tensor": _pack_tensor(value)}
    if isinstance(value, list):
        return [pack(item) for item in value]
    if isinstance(value, tuple):
        return {"tuple": [pack(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[pack(key), pack(item)] for key, item in value.items()]}
    raise WireError(
        f"a {type(value).__name__} can't be compared; allowed: numbers, texts, None, tensors, and"
        " lists, tuples and dicts of them"
    )


def _pack_tensor(tensor: torch.Tensor) -> dict[str, Any]:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in DTYPES.supported_names():
        raise WireError(f"a tensor of {tensor.dtype} can't be compared")
    data = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes()
    return {
        "dtype": name,
        "shape": list(tensor.shape),
        "bytes": base64.b64encode(data).decode(),
    }


def unpack(data: Any) -> Any:
    """What ``pack`` was given. Raises WireError for anything it didn't make."""
    try:
        return _unpack(data)
    except WireError:
        raise
    except (LookupError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise WireError(f"no value of ours: {error}") from None


def _unpack(data: Any) -> Any:
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list):
        return [_unpack(item) for item in data]
    ((kind, content),) = data.items()
    if kind == "handle":
        return Handle(content)
    if kind == "float":
        return float(content)
    if kind == "tensor":
        return _unpack_tensor(content)
    if kind == "tuple":
        return tuple(_unpack(item) for item in content)
    if kind == "dict":
        return {_unpack(key): _unpack(item) for key, item in content}
    raise WireError(f"{kind!r} is no kind of value")


def _unpack_tensor(content: dict[str, Any]) -> torch.Tensor:
    dtype, shape = DTYPES[content["dtype"]], [int(size) for size in content["shape"]]
    raw = bytearray(base64.b64decode(content["bytes"], validate=True))
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != len(raw):
        raise WireError(f"{len(raw)} bytes are no tensor of {dtype} and shape {shape}")
    if not raw:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(raw, dtype=torch.uint8).view(dtype).reshape(shape)


def line(message: dict[str, Any]) -> bytes:
    """The line that a message travels as."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def send(stream: IO[bytes], message: dict[str, Any]) -> None:
    """Write one message as a line."""
    stream.write(line(message))
    stream.flush()


def parse(text: bytes) -> dict[str, Any]:
    """The message of a line. Raises WireError for another kind of line."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise WireError(f"{text[:60]!r} is no message") from None
    if not isinstance(message, dict):
        raise WireError(f"{text[:60]!r} is no message")
    return message
