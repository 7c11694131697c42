from __future__ import annotations

import torch


class Reference:
    def __init__(
        self,
        num_layers: int,
        num_pages: int,
        page_size: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: str,
    ) -> None:
        shape = (num_pages, num_layers, 2, page_size, num_kv_heads, head_dim)
        self.buffer = torch.empty(torch.Size(shape).numel(), dtype=getattr(torch, dtype))
        self._pages = self.buffer.view(shape)
        self._page_size = page_size

    def k_cache(self, layer_id: int) -> torch.Tensor:
        return self._pages[:, layer_id, 0]

    def v_cache(self, layer_id: int) -> torch.Tensor:
        return self._pages[:, layer_id, 1]

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        page, place = out_loc // self._page_size, out_loc % self._page_size
        self.k_cache(layer_id)[page, place] = k
        self.v_cache(layer_id)[page, place] = v


class ByStrides(Reference):
    """Views by strides of the flat buffer; a row of a token is written number by number."""

    def k_cache(self, layer_id: int) -> torch.Tensor:
        return self._strided(2 * layer_id)

    def v_cache(self, layer_id: int) -> torch.Tensor:
        return self._strided(2 * layer_id + 1)

    def _strided(self, part: int) -> torch.Tensor:
        pages, layers, _, page_size, heads, dim = self._pages.shape
        token = heads * dim
        size = (pages, page_size, heads, dim)
        strides = (2 * layers * page_size * token, token, dim, 1)
        return self.buffer.as_strided(size, strides, part * page_size * token)

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        _, layers, _, page_size, heads, dim = self._pages.shape
        token = heads * dim
        for t, slot in enumerate(out_loc.tolist()):
            page, place = divmod(slot, page_size)
            for kv, rows in enumerate((k, v)):
                begin = (((page * layers + layer_id) * 2 + kv) * page_size + place) * token
                self.buffer[begin : begin + token] = rows[t].flatten()


class LayersFirst(Reference):
    """Our own layout."""

    def __init__(self, *sizes: int | str) -> None:
        super().__init__(*sizes)  # type: ignore[arg-type]
        pages, layers, _, page_size, heads, dim = self._pages.shape
        ours = self.buffer.view(2, layers, pages, page_size, heads, dim)
        self._pages = ours.permute(2, 1, 0, 3, 4, 5)


class KAndVFirst(Reference):
    """K of all layers of a page, then V of all layers."""

    def __init__(self, *sizes: int | str) -> None:
        super().__init__(*sizes)  # type: ignore[arg-type]
        pages, layers, _, page_size, heads, dim = self._pages.shape
        self._pages = self.buffer.view(pages, 2, layers, page_size, heads, dim).transpose(1, 2)


class HandsOutCopies(Reference):
    def k_cache(self, layer_id: int) -> torch.Tensor:
        return super().k_cache(layer_id).contiguous()


class CopiesUnlessOneLayer(Reference):
    """`reshape` is a view where there is one layer, and a copy elsewhere."""

    def v_cache(self, layer_id: int) -> torch.Tensor:
        pages, _, _, page_size, heads, dim = self._pages.shape
        flat = super().v_cache(layer_id).reshape(pages * page_size, heads, dim)
        return flat.view(pages, page_size, heads, dim)


class StoresIntoACopy(Reference):
    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        self.k_cache(layer_id).reshape(-1, *k.shape[1:])[out_loc] = k
        self.v_cache(layer_id).reshape(-1, *v.shape[1:])[out_loc] = v


class ForgetsTheLayer(Reference):
    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        super().store_kv(k, v, out_loc, 0)


class SameInEveryLayer(Reference):
    def k_cache(self, layer_id: int) -> torch.Tensor:
        return super().k_cache(0)


class SwapsKAndV(Reference):
    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        super().store_kv(v, k, out_loc, layer_id)


class SlotsArePages(Reference):
    """Takes out_loc for page numbers: right for P = 1 only."""

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        self.k_cache(layer_id)[out_loc, 0] = k
        self.v_cache(layer_id)[out_loc, 0] = v


class StoresInOrder(Reference):
    """Writes to the first free-looking places, whatever out_loc says."""

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        super().store_kv(k, v, out_loc.sort().values, layer_id)


class StoresAlsoNextDoor(Reference):
    """The whole page is written."""

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        for t, slot in enumerate(out_loc.tolist()):
            self.k_cache(layer_id)[slot // self._page_size] = k[t]
            self.v_cache(layer_id)[slot // self._page_size] = v[t]


class MakesANewBuffer(Reference):
    """The pool is replaced at each store; older views still show the old one."""

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        self.buffer = self.buffer.clone()
        self._pages = self.buffer.view(self._pages.shape)
        super().store_kv(k, v, out_loc, layer_id)


class AlwaysFloat32(Reference):
    def __init__(self, *sizes: int | str) -> None:
        super().__init__(*sizes[:-1], "float32")  # type: ignore[arg-type]


class OneForAll(Reference):
    """The buffer belongs to the class."""

    made: dict[tuple[int | str, ...], torch.Tensor] = {}  # noqa: RUF012

    def __init__(self, *sizes: int | str) -> None:
        super().__init__(*sizes)  # type: ignore[arg-type]
        self.buffer = self.made.setdefault(sizes, self.buffer)
        self._pages = self.buffer.view(self._pages.shape)


RIGHT = [Reference, ByStrides]
WRONG = {
    LayersFirst: "is not where the layout has it: page 0",
    KAndVFirst: "is not where the layout has it: page 0, layer 0, V, place 0, head 0, number 0",
    HandsOutCopies: "k_cache(0) is not there when it is called again: it hands out a copy",
    CopiesUnlessOneLayer: "v_cache(0) is not there when it is called again",
    StoresIntoACopy: "k_cache(0) of before does not show it at slot",
    ForgetsTheLayer: "layer_id = 1",
    SameInEveryLayer: "two of them are the same place",
    SwapsKAndV: "does not show it at slot",
    SlotsArePages: "raised IndexError",
    StoresInOrder: "does not show it at slot",
    StoresAlsoNextDoor: "which was not to be written",
    MakesANewBuffer: "k_cache(0) of before does not show it",
    AlwaysFloat32: "returned torch.float32; torch.",
    OneForAll: "two PagePools share their memory",
}
