"""Model, pool and table of one device, and the steps on it (mini-sglang: engine/engine.py)."""

from __future__ import annotations

import re
from typing import NamedTuple

import torch

from ..attention import create_attention_backend
from ..attention.cpu import CpuAttnBackend
from ..core import Batch, Context, use_ctx
from ..distributed import DistributedCommunicator
from ..hooks import Hooks
from ..kvcache import create_kvcache_pool
from ..layers.fast_linear import make_fast
from ..models import create_model, open_model
from ..models.base import BaseLLMModel
from ..models.source import ModelSource
from ..utils import div_ceil, div_even
from .config import DEFAULT_CPU_TOKENS, EngineConfig
from .graph import CudaRecorder, GraphRunner, determine_cuda_graph_bs, make_dummy_req
from .sample import BatchSamplingArgs, Sampler
from .stream import CopyDone, CudaStream, DoneEvent, HostStream, Stream
from .tables import make_page_table
from .tape import TapeRecorder


class ForwardOutput(NamedTuple):
    """The sampled tokens, (bs,) int32 each; the host may read its copy after ``synchronize()``."""

    next_tokens_gpu: torch.Tensor
    next_tokens_cpu: torch.Tensor
    copy_done_event: CopyDone


class LoadedModel(NamedTuple):
    """Weights on a device, which several engines may share, and where they came from."""

    source: ModelSource
    model: BaseLLMModel
    dtype: torch.dtype


class Engine:
    """One model on one device with its pool, page table, backend and sampler.

    It owns a ``Context`` and makes it current only while it is built and while it runs a step, so
    any number of engines live in one process. ``loaded``: weights of another engine to share.

    Raises:
        ValueError: a setting that is not allowed, or a model that can't be read.
    """

    def __init__(self, config: EngineConfig, *, loaded: LoadedModel | None = None) -> None:
        config.validate()
        self.device = _choose_device(config.device)
        self.dtype = config.dtype
        self.stream: Stream = (
            CudaStream(self.device) if self.device.type == "cuda" else HostStream()
        )
        self.ctx = Context(config.page_size, tp_info=config.tp_info)
        if loaded is not None and loaded.dtype != config.dtype:
            raise ValueError(
                f"dtype {config.dtype} is not that of the shared weights, {loaded.dtype}."
            )
        with use_ctx(self.ctx):
            self.loaded = loaded or load_model(config, self.device)
            self.model = self.loaded.model
            self._build(config)

    def _build(self, config: EngineConfig) -> None:
        model_config = self.loaded.source.config
        self.num_pages = DistributedCommunicator().smallest(
            self._determine_num_pages(config), self.device
        )
        longest = model_config.rotary_config.max_position
        self.max_seq_len = min(
            config.max_seq_len_override or longest, longest, self.num_pages * config.page_size
        )
        try:
            self._make_pool_and_table(config)
        except (RuntimeError, OverflowError) as error:
            wanted = (self.num_pages + 1) * self._bytes_per_page(config.page_size) / 2**30
            raise ValueError(
                f"a pool of {self.num_pages} pages of {config.page_size} tokens takes"
                f" {wanted:,.1f} GiB, which can't be had here; ask for fewer or smaller pages."
            ) from error
        self.ctx.attn_backend = self.attn_backend = create_attention_backend(
            config.attention_backend, model_config
        )
        self.sampler = Sampler(self.device, model_config.vocab_size)
        self.dummy_req = make_dummy_req(config.max_running_req)
        sizes = determine_cuda_graph_bs(
            config.cuda_graph_bs, config.cuda_graph_max_bs, config.max_running_req
        )
        self.graph_runner = GraphRunner(sizes, self.dummy_req)
        if (recorder := self._recorder()) is not None:
            self.graph_runner.capture(
                self.model,
                self.attn_backend,
                self.max_seq_len,
                model_config.vocab_size,
                recorder,
            )
        if isinstance(self.stream, CudaStream):
            # Pool and table were made on the default stream, and steps run on others.
            torch.cuda.synchronize(self.device)

    def _recorder(self) -> CudaRecorder | TapeRecorder | None:
        """What captures a decode step here; None where it can only be padded."""
        if isinstance(self.stream, CudaStream):
            return CudaRecorder(self.stream.stream)
        decodes = getattr(self.attn_backend, "decode_backend", self.attn_backend)
        alone = self.ctx.tp_info.size == 1  # a tape holds no exchange between ranks
        return TapeRecorder() if alone and isinstance(decodes, CpuAttnBackend) else None

    def _make_pool_and_table(self, config: EngineConfig) -> None:
        self.ctx.kv_cache = self.kv_cache = create_kvcache_pool(
            model_config=self.loaded.source.config,
            num_pages=self.num_pages + 1,  # the last is the dummy page
            page_size=config.page_size,
            dtype=self.dtype,
            device=self.device,
        )
        self.ctx.page_table = self.page_table = make_page_table(
            config.max_running_req, self.max_seq_len, self.num_pages, config.page_size, self.device
        )

    @property
    def hooks(self) -> Hooks:
        return self.ctx.hooks

    @torch.inference_mode()
    def forward_batch(self, batch: Batch, args: BatchSamplingArgs) -> ForwardOutput:
        """Launch one step: new K/V into the pool, a token sampled per request.

        Calls ``complete_one()`` on ``batch.reqs``: from here on their lengths are a step ahead.
        """
        outputs: list[ForwardOutput] = []

        def run() -> None:
            with use_ctx(self.ctx), self.ctx.forward_batch(batch):
                if self.graph_runner.can_replay(batch):
                    logits = self.graph_runner.replay(batch)
                else:
                    logits = self.model.forward()  # (padded bs, vocab)
            next_tokens = self.sampler.sample(logits[: batch.size], args).to(torch.int32)
            outputs.append(_copy_to_host(next_tokens))

        self.stream.issue(run)
        for req in batch.reqs:
            req.complete_one()
        return outputs[0]

    def shutdown(self) -> None:
        """Free graphs, pool and weights (shared weights live on with their other engines)."""
        self.graph_runner.destroy_cuda_graphs()
        for name in ("model", "loaded", "kv_cache", "attn_backend"):
            self.__dict__.pop(name, None)
        for name in ("kv_cache", "attn_backend"):
            self.ctx.__dict__.pop(name, None)

    def _determine_num_pages(self, config: EngineConfig) -> int:
        if config.num_page_override is not None:
            return config.num_page_override
        if self.device.type != "cuda":
            return div_ceil(DEFAULT_CPU_TOKENS, config.page_size)
        free, _ = torch.cuda.mem_get_info(self.device)
        pages = int(free * config.memory_ratio) // self._bytes_per_page(config.page_size) - 1
        if pages < 1:
            raise ValueError(f"{free >> 20} MiB of free device memory hold no page; free some.")
        return pages

    def _bytes_per_page(self, page_size: int) -> int:
        model_config = self.loaded.source.config
        heads = div_even(model_config.num_kv_heads, self.ctx.tp_info.size, allow_replicate=True)
        per_token = 2 * model_config.num_layers * heads * model_config.head_dim
        return per_token * page_size * self.dtype.itemsize


def load_model(config: EngineConfig, device: torch.device) -> LoadedModel:
    """Read the model that ``config.model_path`` names, in the current context's rank's share."""
    source = open_model(config.model_path, allow_download=config.allow_download)
    with torch.device("meta"):
        model = create_model(source.config)
    alone_on_cpu = device.type == "cpu" and config.tp_info.size == 1
    # NOTE: on a CPU bf16 is for weights and pool. What goes from layer to layer stays fp32: it is
    # little, and rounding it cost more agreement with fp32 than all the rest.
    quick = alone_on_cpu and config.dtype == torch.bfloat16
    model.load_state_dict(source.state_dict(torch.float32 if quick else config.dtype, device))
    if alone_on_cpu:
        make_fast(model, source.blocks(), config.dtype)
    return LoadedModel(source, model, config.dtype)


def _choose_device(name: str | None) -> torch.device:
    if name is None:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    name = str(name)  # a torch.device will do
    if not re.fullmatch(r"(cpu|cuda)(:\d+)?", name):
        raise ValueError(f"device {name!r} is not allowed: 'cpu' or 'cuda'.")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"device {name!r} is not here; 'cpu' is.")
    if name == "cuda":
        return torch.device(name, torch.cuda.current_device())
    return torch.device(name)


def _copy_to_host(next_tokens: torch.Tensor) -> ForwardOutput:
    if not next_tokens.is_cuda:
        return ForwardOutput(next_tokens, next_tokens, DoneEvent())
    on_host = next_tokens.to("cpu", non_blocking=True)
    event = torch.cuda.Event()
    event.record()
    return ForwardOutput(next_tokens, on_host, event)
