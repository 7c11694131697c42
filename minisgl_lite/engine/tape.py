"""What a CUDA graph is on a GPU, on a CPU: the calls of a step, recorded once and made again.

A step for one request is some hundred small calls, and between them Python asks each time anew
which layer comes next, what shapes its tensors have, and where they lie. None of that changes from
step to step. So the calls are kept with their addresses: compiled functions as they are, those that
follow one another joined into one call, and torch operations with their arguments and the tensor
that their result goes to.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..kernel.compiled import joined, recording


class Tape:
    """Recorded calls, with as many threads as there were then.

    ``kept``: what they read and write, which must stay where it is.
    """

    def __init__(self) -> None:
        self.calls: list[Callable[[], Any]] = []
        self.kept: list[Any] = []
        self._joined: list[Callable[[], Any]] = []

    def close(self) -> None:
        """Nothing more is recorded: from here on the tape can be replayed."""
        self._joined = joined(self.calls)

    def replay(self) -> None:
        """Make the calls again, in order, on what their tensors hold now."""
        for call in self._joined:
            call()


class TapeRecorder:
    """Runs a step twice and returns its ``Tape``; the CPU's counterpart of ``CudaRecorder``.

    Raises:
        NotRecordable: the step looks into a tensor, so the calls that follow may depend on it.
    """

    def __call__(self, step: Callable[[], None]) -> Tape:
        step()  # makes what is made once, such as the table of rotations, which a tape must not
        tape = Tape()
        with recording(tape.calls, tape.kept), _NoLooking(), _Operations(tape):
            step()
        tape.close()
        return tape


class NotRecordable(RuntimeError):
    """A step that can't be made again from its calls alone."""


_LOOKING = {
    getattr(torch.Tensor, name)
    for name in ("item", "tolist", "numpy", "__bool__", "__int__", "__float__", "__index__")
}
"""What hands a tensor's numbers to Python."""

_COPIES = {"_to_copy", "to", "clone", "contiguous"}
"""Operations whose result is their first argument in another dtype or order."""


class _NoLooking(TorchFunctionMode):
    """Refuses what takes numbers out of tensors without an operation that could be recorded."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in _LOOKING:
            raise NotRecordable(f"a recorded step can't use Tensor.{func.__name__}.")
        return func(*args, **kwargs or {})


class _Operations(TorchDispatchMode):
    """Records torch operations other than views, which go on showing the same memory."""

    def __init__(self, tape: Tape) -> None:
        super().__init__()
        self.tape = tape

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.tape.kept.append(out)  # NOTE: empty ones too, which a compiled function fills
        name = func.overloadpacket.__name__
        if name == "_local_scalar_dense":
            raise NotRecordable("a recorded step can't read a number of a tensor.")
        if func._schema.is_mutable:
            self.tape.calls.append(lambda: func(*args, **kwargs))
        elif _storages(out) <= _storages((args, kwargs)) or "empty" in name:
            pass  # a view shows what is there, and an empty tensor holds nothing
        elif name in _COPIES:
            self.tape.calls.append(lambda: out.copy_(args[0]))
        else:
            self.tape.calls.append(lambda: _fill(out, func(*args, **kwargs)))
        return out


def _storages(tree: Any) -> set[int]:
    """NOTE: the schema does not tell a view: ``to`` and ``reshape`` make one or a new tensor."""
    tensors = [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]
    return {t.untyped_storage().data_ptr() for t in tensors if not t.is_mkldnn}


def _fill(kept: Any, made: Any) -> None:
    pairs = [(kept, made)] if isinstance(kept, torch.Tensor) else zip(kept, made, strict=True)
    for one, other in pairs:
        one.copy_(other)
