"""Operations with weights, without torch.nn (mini-sglang: layers/base.py).

An op is a plain object. Its public tensor attributes are its weights and its public op attributes
are its children; a name that starts with ``_`` is neither. Ops are often built on the meta device:
shapes exist, memory does not, until ``load_state_dict`` puts real tensors in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Generic, TypeVar

import torch

StateDict = dict[str, torch.Tensor]


def _concat_prefix(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix else name


def _refuse_rest(state_dict: StateDict) -> None:
    """Raises ValueError when tensors are left that no op asked for."""
    if state_dict:
        name, tensor = next(iter(state_dict.items()))
        raise ValueError(
            f"unexpected tensor {name!r} of shape {tuple(tensor.shape)}"
            f" (one of {len(state_dict)} that no layer takes)."
        )


def _take(state_dict: StateDict, name: str, param: torch.Tensor) -> torch.Tensor:
    """Pop ``name``; it must have the shape of ``param``, in any floating dtype."""
    if name not in state_dict:
        raise ValueError(f"missing tensor {name!r}, expected shape {tuple(param.shape)}.")
    item = state_dict.pop(name)
    if item.shape != param.shape or not item.is_floating_point():
        raise ValueError(
            f"tensor {name!r} has shape {tuple(item.shape)} and {item.dtype},"
            f" expected shape {tuple(param.shape)} and a floating dtype."
        )
    return item


class BaseOP:
    """One operation: ``forward`` computes, the state dict names its weights."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} computes nothing by itself.")

    def _children(self) -> Iterator[tuple[str, torch.Tensor | BaseOP]]:
        """The (name, weight or op) pairs below this op, in order of assignment."""
        for name, param in self.__dict__.items():
            if not name.startswith("_") and isinstance(param, (torch.Tensor, BaseOP)):
                yield name, param

    def state_dict(self, *, prefix: str = "", result: StateDict | None = None) -> StateDict:
        """All weights below this op by dotted name; the tensors themselves, no copies."""
        result = {} if result is None else result
        for name, param in self._children():
            full_name = _concat_prefix(prefix, name)
            if isinstance(param, torch.Tensor):
                result[full_name] = param
            else:
                param.state_dict(prefix=full_name, result=result)
        return result

    def load_state_dict(
        self, state_dict: StateDict, *, prefix: str = "", _internal: bool = False
    ) -> None:
        """Take the weights out of ``state_dict`` (which is emptied) and keep them, uncopied.

        Raises:
            ValueError: a tensor is missing, is left over, has another shape or is not floating; the
                message names it with its shape and the expected one.
        """
        for name, param in list(self._children()):
            full_name = _concat_prefix(prefix, name)
            if isinstance(param, torch.Tensor):
                setattr(self, name, _take(state_dict, full_name, param))
            else:
                param.load_state_dict(state_dict, prefix=full_name, _internal=True)
        if not _internal:
            _refuse_rest(state_dict)


class StateLessOP(BaseOP):
    """An op without weights of its own; ops it holds are loaded by whoever owns them."""

    def _children(self) -> Iterator[tuple[str, torch.Tensor | BaseOP]]:
        return iter(())


T = TypeVar("T", bound=BaseOP)


class OPList(BaseOP, Generic[T]):
    """Ops under the names ``0``, ``1``, …, as checkpoints number their layers."""

    def __init__(self, ops: Sequence[T]) -> None:
        self.op_list = list(ops)

    def _children(self) -> Iterator[tuple[str, torch.Tensor | BaseOP]]:
        return ((str(i), op) for i, op in enumerate(self.op_list))
