"""A pool of the learner's own, pages first, whose layers are views of one flat buffer."""

from __future__ import annotations

import itertools
import random
from typing import Any

import torch

from ...kvcache import BaseKVCachePool
from ...llm import LLM, SamplingParams
from ...scheduler import Managers
from ..checks import expect
from ..checks.exercise import Exercise, add
from ..checks.learner import Learner, LearnerObject, Wrong
from ..checks.lockstep import compare, play, random_stream

KV = ("k_cache", "v_cache")


def _check(learner: Learner, rng: random.Random) -> None:
    for sizes in (
        {"num_layers": 2, "num_pages": 3, "page_size": 4, "num_kv_heads": 2, "head_dim": 5},
        {"num_layers": 3, "num_pages": 5, "page_size": 1, "num_kv_heads": 1, "head_dim": 2},
        {"num_layers": 1, "num_pages": 4, "page_size": 3, "num_kv_heads": 3, "head_dim": 1},
    ):
        _Trial(learner, rng, sizes, rng.choice(["float32", "float64"])).run()
    sizes = {"num_layers": 2, "num_pages": 2, "page_size": 2, "num_kv_heads": 1, "head_dim": 3}
    _Trial(learner, rng, sizes, "bfloat16").run()
    for _ in range(2):
        compare(
            random_stream(rng, requests=5),
            Managers(),
            put_in=lambda toy: _put_in(learner, toy.engine),
        )
    _generate(learner)


class _Trial:
    """One pool of the learner's, and beside it what it must hold: ``held``, pages first."""

    def __init__(
        self, learner: Learner, rng: random.Random, sizes: dict[str, int], dtype: str
    ) -> None:
        self.sizes, self.rng = sizes, rng
        self.layers, self.pages, self.page_size, self.heads, self.dim = sizes.values()
        self.dtype: torch.dtype = getattr(torch, dtype)
        self.held = torch.zeros(
            (self.pages, self.layers, 2, self.page_size, self.heads, self.dim), dtype=self.dtype
        )
        self.pool = learner.new(*sizes.values(), dtype)
        self.other = learner.new(*sizes.values(), dtype)
        self.of = f"with {', '.join(f'{k} = {v}' for k, v in sizes.items())}"

    def run(self) -> None:
        self._buffer("before anything is written")
        self.views = [[self.pool.keep(name, i) for name in KV] for i in range(self.layers)]
        self._fill()
        self._compare_buffer()
        for _ in range(3):
            self._store(self.rng.randrange(1, self.pages * self.page_size + 1))
            self._write_through_a_view()
            self._move_a_page()
        self._store(0)
        self._second_pool()

    def numbers(self, *shape: int) -> torch.Tensor:
        """Small whole numbers, exact in every dtype; 0 is none of them."""
        count = torch.Size(shape).numel()
        values = [self.rng.randrange(1, 200) for _ in range(count)]
        return torch.tensor(values, dtype=self.dtype).reshape(shape)

    def _buffer(self, when: str) -> torch.Tensor:
        name = f"PagePool.buffer, {self.of}, {when},"
        return expect.tensor(self.pool.get("buffer"), name, self.dtype, (self.held.numel(),))

    def _view(self, layer: int, kv: int) -> torch.Tensor:
        """What a fresh call returns."""
        shape = (self.pages, self.page_size, self.heads, self.dim)
        called = f"{KV[kv]}({layer}), {self.of},"
        return expect.tensor(self.pool.call(KV[kv], layer), called, self.dtype, shape)

    def _fill(self) -> None:
        """Every number of the pool through the views that were taken first."""
        for layer in range(self.layers):
            for kv in (0, 1):
                before = self._view(layer, kv)
                values = self.numbers(self.pages, self.page_size, self.heads, self.dim)
                # Memory that was used before can hold the very same numbers.
                values = torch.where(before == values, values + 1, values)
                self.views[layer][kv].write([(0, self.pages)], values)
                self.held[:, layer, kv] = values
                if not torch.equal(self._view(layer, kv), values):
                    raise Wrong(
                        f"what is written to {KV[kv]}({layer}) is not there when it is called"
                        " again: it hands out a copy, not a view"
                    )
        for layer in range(self.layers):
            for kv in (0, 1):
                if not torch.equal(self._view(layer, kv), self.held[:, layer, kv]):
                    raise Wrong(
                        f"after all views were written, {KV[kv]}({layer}) holds numbers of another"
                        " one: two of them are the same place",
                        "m10" if self.layers > 1 else None,
                    )

    def _compare_buffer(self) -> None:
        """Each number where the layout puts it."""
        different = (self._buffer("written") != self.held.flatten()).nonzero()
        if len(different) > 0:
            first = int(different[0])
            page, layer, kv, place, head, at = torch.unravel_index(
                torch.tensor(first), self.held.shape
            )
            raise Wrong(
                f"buffer[{first}], {self.of}, is not where the layout has it: page {int(page)},"
                f" layer {int(layer)}, {'KV'[int(kv)]}, place {int(place)}, head {int(head)},"
                f" number {int(at)}"
            )

    def _store(self, count: int) -> None:
        layer = self.rng.randrange(self.layers)
        slots = self.rng.sample(range(self.pages * self.page_size), count)
        k, v = (self.numbers(count, self.heads, self.dim) for _ in KV)
        self.pool.call("store_kv", k, v, torch.tensor(slots, dtype=torch.int32), layer)
        for t, slot in enumerate(slots):
            page, place = divmod(slot, self.page_size)
            self.held[page, layer, 0, place] = k[t]
            self.held[page, layer, 1, place] = v[t]
        written = {(layer, kv, slot) for kv in (0, 1) for slot in slots}
        self._compare_all(f"store_kv with out_loc = {slots}, layer_id = {layer}", written)

    def _write_through_a_view(self) -> None:
        layer, kv = self.rng.randrange(self.layers), self.rng.randrange(2)
        page, place = self.rng.randrange(self.pages), self.rng.randrange(self.page_size)
        values = self.numbers(self.heads, self.dim)
        self.views[layer][kv].write([page, place], values)
        self.held[page, layer, kv, place] = values
        written = {(layer, kv, page * self.page_size + place)}
        self._compare_all(f"a write to {KV[kv]}({layer})[{page}, {place}]", written)

    def _move_a_page(self) -> None:
        """What this layout is for: a page of all layers is one slice."""
        source, target = self.rng.sample(range(self.pages), 2)
        size = self.held[0].numel()
        span = (target * size, (target + 1) * size)
        self.pool.keep_attribute("buffer").write([span], self.held[source].flatten())
        self.held[target] = self.held[source]
        slots = range(target * self.page_size, (target + 1) * self.page_size)
        everywhere = itertools.product(range(self.layers), (0, 1), slots)
        self._compare_all(f"a write to buffer[{span[0]}:{span[1]}]", set(everywhere))

    def _compare_all(self, what: str, written: set[tuple[int, int, int]]) -> None:
        """Old views and fresh ones against what must be there; ``written``: layer, K or V, slot."""
        for layer, kv in itertools.product(range(self.layers), (0, 1)):
            right, name = self.held[:, layer, kv], f"{KV[kv]}({layer})"
            for found, which in (
                (self.views[layer][kv].read(), f"the {name} of before"),
                (self._view(layer, kv), name),
            ):
                if torch.equal(found, right):
                    continue
                page, place = (found != right).nonzero()[0, :2].tolist()
                slot = page * self.page_size + place
                where = f"slot {slot} (page {page}, place {place})"
                if (layer, kv, slot) in written:
                    raise Wrong(f"after {what}, {which} does not show it at {where}")
                raise Wrong(f"{what} changed {which} at {where}, which was not to be written")

    def _second_pool(self) -> None:
        """Another pool of the same sizes has memory of its own."""
        self.other.keep("k_cache", 0).write([(0, self.pages)], 0.0)
        if not torch.equal(self._buffer("later"), self.held.flatten()):
            raise Wrong("two PagePools share their memory: a write to one changes the other")


class _Yours(BaseKVCachePool):
    """The learner's pool where the engine has its own."""

    def __init__(self, pool: LearnerObject, sizes: tuple[int, ...], dtype: torch.dtype) -> None:
        self._pool, self._dtype = pool, dtype
        layers, *self._shape = sizes
        self._layers = layers
        numel = 2 * layers * torch.Size(self._shape).numel()
        # NaN, as in the engine's own: what was not written must not be read.
        nan = torch.full((numel,), float("nan"), dtype=dtype)
        pool.keep_attribute("buffer").write([(0, numel)], nan)

    def k_cache(self, index: int) -> torch.Tensor:
        return self._layer("k_cache", index)

    def v_cache(self, index: int) -> torch.Tensor:
        return self._layer("v_cache", index)

    def _layer(self, name: str, index: int) -> torch.Tensor:
        value = self._pool.call(name, index)
        return expect.tensor(value, f"{name}({index})", self._dtype, tuple(self._shape))

    def store_kv(
        self, k: torch.Tensor, v: torch.Tensor, out_loc: torch.Tensor, layer_id: int
    ) -> None:
        rows = (len(out_loc), *self._shape[2:])
        self._pool.call("store_kv", k.reshape(rows), v.reshape(rows), out_loc, layer_id)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @property
    def dtype(self) -> torch.dtype:
        return self._dtype

    @property
    def num_layers(self) -> int:
        return self._layers


def _put_in(learner: Learner, engine: Any) -> None:
    """Give ``engine`` a pool of the learner's, of the sizes of its own."""
    own = engine.kv_cache
    sizes = (own.num_layers, *own.k_cache(0).shape)
    pool = learner.new(*sizes, str(own.dtype).removeprefix("torch."))
    engine.kv_cache = engine.ctx.kv_cache = _Yours(pool, sizes, own.dtype)
    if hasattr(engine.attn_backend, "kvcache"):
        engine.attn_backend.kvcache = engine.kv_cache


def _generate(learner: Learner) -> None:
    """A model's tokens are the same, whichever pool its K and V lie in."""
    params = SamplingParams(max_tokens=5, ignore_eos=True)
    prompts: list[Any] = [[72, 101, 108, 108, 111], [72, 101, 121]]
    said = []
    with LLM("tiny", page_size=2, num_pages=10, device="cpu", attention_backend="torch") as llm:
        for engine in (llm, llm.fork()):
            if engine is not llm:
                _put_in(learner, engine.engine)
            said.append([r["token_ids"] for r in engine.generate(prompts, params)])
    if said[0] != said[1]:
        raise Wrong(f"with your pool a model says {said[1]}; it should say {said[0]}")


add(
    Exercise(
        name="pool-views",
        kind="build",
        answer="PagePool",
        objective="build a pool with another layout, whose layers are views and not copies",
        difficulty=3,
        minutes=40,
        points=8,
        page="pool-dimensions",
        misconceptions=("m10",),
        counterparts=(
            "minisgl_lite.kvcache.mha_pool:MHAKVCache.k_cache",
            "minisgl_lite.kvcache.mha_pool:MHAKVCache.v_cache",
            "minisgl_lite.kvcache.mha_pool:MHAKVCache.store_kv",
        ),
        hints=(
            "`buffer.view(pages, layers, 2, page_size, heads, head_dim)` is the same memory with"
            " six dimensions. K of a layer fixes two of them.",
            "In this layout a layer can't be seen as a list of slots: the distance from the last"
            " place of a page to the first of the next is another one. `view` refuses, and"
            " `reshape` copies: what is stored into the copy is lost.",
            "Take each slot apart: page = slot // page_size, place = slot % page_size. Then"
            " `k_cache(layer_id)[page, place] = k`, with tensors as indices, writes all T rows.",
        ),
        check=_check,
        scene=lambda learner: play(put_in=lambda toy: _put_in(learner, toy.engine)),
    )
)
