"""Write before read, seen from outside: was a layer's output made of what it has just stored?

A backend reads the pool as it likes, in kernels that tell nobody. So what stands at the new
tokens' slots is kept before attention begins; when it is over, one row of its output is compared
with attention over what stands there now, and with attention over what stood there before.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import torch

from ..text import say
from .faults import Fault
from .plan import Plan
from .pool_watch import PoolWatch

ROUNDING = 8
"""How many units in the last place two answers must differ by before they are told apart."""


class OrderWatch:
    """Looks at one row of each layer of each step: the last of the batch's first request.

    That row reads everything its request stores in the step; a backend that reads too early does
    so for every request.
    """

    def __init__(self, pool: PoolWatch) -> None:
        self._pool = pool
        self._former: dict[int, list[torch.Tensor]] = {}

    def begin(self, plan: Plan, layer: int) -> None:
        """Keep K and V that stand where the request is about to store, (n, H_kv, D) each."""
        member, _ = next(plan.real())
        new = plan.slots[: member.device_len - member.cached_len]
        self._former[layer] = list(self._pool.rows(layer, new))

    def end(self, plan: Plan, layer: int, q: torch.Tensor, output: torch.Tensor) -> Iterator[Fault]:
        """``q``, ``output``: (T, H_q, D), of the attention that is over."""
        former = self._former.pop(layer, None)
        if former is None or plan.reads is None:
            return
        count, (member, _) = len(former[0]), next(plan.real())
        slots = plan.reads.slots[: member.device_len]
        if not torch.equal(slots[member.cached_len :], plan.slots[:count]):
            return  # it stores where its row does not point, which was told already
        now = self._pool.rows(layer, slots)
        both = [
            (rows, torch.cat([rows[: member.cached_len], old]))
            for rows, old in zip(now, former, strict=True)
        ]
        at = int(plan.index[count - 1])
        if (how := _early(q[at], output[at], *both)) is None:
            return
        place, slot = plan.places[count - 1], int(slots[-1])
        values = {"turn": plan.turn, "layer": layer, "slot": slot, **place._asdict()}
        wanted, found = say("sanitizer.want.order"), say(f"sanitizer.found.{how}", slot=slot)
        text = say(f"sanitizer.{how}", **values)
        yield Fault("read-before-store", text, plan.turn, *place, layer, slot, wanted, found)


def _early(
    q: torch.Tensor,
    output: torch.Tensor,
    keys: tuple[torch.Tensor, torch.Tensor],
    values: tuple[torch.Tensor, torch.Tensor],
) -> str | None:
    """ "order": the output is nearer to attention over former K or V than over the present ones.

    "order.nan": it has no number, though all that it should read are numbers, and not too large.
    None: it is right, or rounding could hide that it isn't. ``q``, ``output``: (H_q, D). ``keys``,
    ``values``: present and former rows, (n, H_kv, D) each.
    """
    right = _attend(q, keys[0], values[0])
    if not bool(output.isfinite().all()):
        largest = q.shape[-1] * float(q.double().abs().max()) * float(keys[0].double().abs().max())
        could = bool(right.isfinite().all()) and largest < torch.finfo(keys[0].dtype).max
        return "order.nan" if could else None
    coarsest = max(torch.finfo(part.dtype).eps for part in (output, *keys, *values))
    grain = ROUNDING * coarsest * float(values[0].double().abs().max())
    distance = _distance(output, right)
    if 1.25 * distance <= grain:  # then what is a grain from right is not four times as near
        return None
    wrong = [_attend(q, k, v) for k, v in product(keys, values)][1:]
    early = any(
        _distance(other, right) > grain and 4 * _distance(output, other) < distance
        for other in wrong
    )
    return "order" if early else None


def _attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """One query over its whole context, in float64: (H_q, D)."""
    shared = q.double().unflatten(0, (k.shape[1], -1))  # (H_kv, group, D)
    scores = shared @ k.double().permute(1, 2, 0) * q.shape[-1] ** -0.5  # (H_kv, group, n)
    return (scores.softmax(-1) @ v.double().transpose(0, 1)).flatten(0, 1)


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference; infinite where one has no number."""
    return float((one.double() - other.double()).abs().nan_to_num(nan=float("inf")).max())
