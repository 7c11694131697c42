"""Faults of the device: where it puts what it computes."""

from __future__ import annotations

from ..device import Device


class OneSlotOff(Device):
    """K/V are stored one slot further."""

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        super().store(layer, [slot + 1 for slot in slots], contents)


class LayerLeftOut(Device):
    """The last layer stores nothing."""

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        if layer == 0:
            super().store(layer, slots, contents)


class LayersMixedUp(Device):
    """All layers store into the first one's part of the pool."""

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        super().store(0, slots, contents)


class StoresBackwards(Device):
    """The tokens of a request go to its slots in the opposite order."""

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        super().store(layer, slots[::-1], contents)


class OverwritesSlotZero(Device):
    """Each store writes its last token to slot 0 as well."""

    def store(self, layer: int, slots: list[int], contents: list[int]) -> None:
        super().store(layer, slots, contents)
        self.pool[layer][0] = contents[-1]
