"""The offline entry point: prompts in, texts out (mini-sglang: llm/llm.py)."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from operator import index
from typing import Any, ClassVar, NamedTuple, TypeAlias

import torch

from .core import SamplingParams
from .engine import Engine, LoadedModel
from .message import AbortBackendMsg, DetokenizeMsg, UserMsg
from .models import Tokenizer
from .scheduler import Managers, MessageQueue, Scheduler, SchedulerConfig
from .scheduler.scheduler import ForwardData
from .utils.interrupts import deferred_interrupt

Prompt: TypeAlias = "str | list[int]"
"""Text, or token ids of the model's vocabulary."""


class TokenEvent(NamedTuple):
    """One token of prompt number ``prompt``, or its error (then ``token`` is -1).

    ``reason`` is None until the last: "stop", "length" or "error: …". The token that ends a text
    with "stop" is not part of it.
    """

    prompt: int
    token: int
    reason: str | None


@dataclass
class RequestStatus:
    """A request of a running ``stream``, and its results not yet taken."""

    index: int
    events: deque[TokenEvent] = field(default_factory=deque)
    finished: bool = False


class PreferredModel(NamedTuple):
    """What ``LLM()`` runs where no model is named."""

    model_path: str = "smollm2"
    dtype: torch.dtype = torch.float32
    allow_download: bool = False


class LLM(Scheduler):
    """A model with its engine and scheduler; any number of them live in one process.

    Args:
        model_path: "smollm2", "tiny", a GGUF file, a safetensors folder, or a hub name. Without it
            ``LLM.preferred``: SmolLM2, unless ``minisgl_lite.colab`` has chosen for the machine.
        dtype: of weights and cache; fp32, the default, gives the tokens that the book shows.
        page_size, num_pages: the pool; without ``num_pages`` a CPU gets 8,192 tokens.
        overlap: prepare the next batch while the device runs this one.
        loaded: weights of another LLM's engine (``other.engine.loaded``), to share them.
        managers: other manager classes than this package's own.
        config: further fields of ``SchedulerConfig``.
    """

    preferred: ClassVar[PreferredModel] = PreferredModel()

    def __init__(
        self,
        model_path: str | None = None,
        dtype: torch.dtype | None = None,
        *,
        page_size: int = 1,
        num_pages: int | None = None,
        cache_type: str = "radix",
        overlap: bool = False,
        loaded: LoadedModel | None = None,
        managers: Managers = Managers(),  # noqa: B008 - an immutable tuple of classes
        **config: Any,
    ) -> None:
        if num_pages is not None and (not isinstance(num_pages, int) or num_pages < 1):
            raise ValueError(f"num_pages {num_pages!r} is not allowed: 1 or more.")
        named = self.preferred if model_path is None else PreferredModel(model_path)
        config.setdefault("allow_download", named.allow_download)
        settings = SchedulerConfig(
            model_path=named.model_path,
            dtype=named.dtype if dtype is None else dtype,
            page_size=page_size,
            num_page_override=num_pages,
            cache_type=cache_type,
            **config,
        )
        engine = Engine(settings, loaded=loaded)
        if settings.eos_token_id is None:
            settings.eos_token_id = engine.loaded.source.eos_token_ids
        super().__init__(settings, engine, MessageQueue(), managers=managers)
        self.config = settings
        self.overlap = overlap
        self.managers = managers
        self.status_map: dict[int, RequestStatus] = {}
        self.counter = 0
        self.closed = False
        self._last_data: ForwardData | None = None

    @property
    def tokenizer(self) -> Tokenizer:
        self._check_open()
        return self.engine.loaded.source.tokenizer()

    def generate(
        self,
        prompts: Iterable[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> list[dict[str, Any]]:
        """Answer all ``prompts``; one dict each, in order: text, token_ids, finish_reason, error.

        A prompt that can't be run gets its ``error`` (else None), with no tokens; the others go on.
        A model without a tokenizer answers ids with ids, and its ``text`` is empty.
        ``sampling_params``: one for all, or one each; none means greedy.

        Raises:
            ValueError: ``prompts`` is one string, or the numbers of prompts and params differ.
        """
        prompts = self._listed(prompts)
        results: list[dict[str, Any]] = [
            {"text": "", "token_ids": [], "finish_reason": None, "error": None} for _ in prompts
        ]
        for number, token, reason in self.stream(prompts, sampling_params):
            result = results[number]
            if reason is not None and reason.startswith("error"):
                result["finish_reason"], result["error"] = "error", reason.removeprefix("error: ")
                continue
            result["finish_reason"] = reason
            if reason != "stop":
                result["token_ids"].append(token)
        for result in results:
            if result["token_ids"]:
                result["text"] = self._text(result["token_ids"])
        return results

    def stream(  # type: ignore[override]
        self,
        prompts: Iterable[Prompt],
        sampling_params: SamplingParams | Sequence[SamplingParams] | None = None,
    ) -> Generator[TokenEvent, None, None]:
        """Yield the tokens of all ``prompts`` as they come.

        Closing the iterator, or Ctrl-C, aborts what still runs and leaves the engine usable.
        """
        self._check_open()
        prompts = self._listed(prompts)
        params = self._one_each(prompts, sampling_params)
        uids: list[int] = []
        try:
            with deferred_interrupt():
                for number, (prompt, param) in enumerate(zip(prompts, params, strict=True)):
                    uids.append(self._submit(number, prompt, param))
            while any(uid in self.status_map for uid in uids):
                self._check_open()
                yield from self._take(uids)
                if any(uid in self.status_map for uid in uids):
                    self.run_turn()
        finally:
            self._drop(uids)

    def run_turn(self) -> None:
        """One turn of the loop, normal or overlapped; Ctrl-C waits for its end."""
        self._check_open()
        with deferred_interrupt():
            if self.overlap:
                self._last_data = self.overlap_loop(self._last_data)
            else:
                self.normal_loop()
            self._deliver()

    def fork(self, **changes: Any) -> LLM:
        """A new LLM over the same weights, with other settings: ``llm.fork(page_size=4)``."""
        self._check_open()
        same = {item.name: getattr(self.config, item.name) for item in fields(self.config)}
        same["num_pages"] = same.pop("num_page_override")
        same |= {"overlap": self.overlap, "managers": self.managers, "loaded": self.engine.loaded}
        return LLM(**(same | changes))

    def close(self) -> None:
        """End what still runs and free weights and pool. Closing twice is fine."""
        if self.closed:
            return
        self._drop(list(self.status_map))
        self.closed = True
        self.engine.shutdown()

    def __enter__(self) -> LLM:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _check_open(self) -> None:
        if self.closed:
            raise RuntimeError("this LLM is closed; make a new one.")

    def _submit(self, number: int, prompt: Prompt, params: SamplingParams) -> int:
        uid, self.counter = self.counter, self.counter + 1
        status = self.status_map[uid] = RequestStatus(number)
        try:
            if not isinstance(params, SamplingParams):
                raise ValueError(f"sampling_params {params!r} is not allowed: a SamplingParams.")
            message = UserMsg(uid, self._tokenize_one(prompt), replace(params))
        except ValueError as error:
            status.events.append(TokenEvent(number, -1, f"error: {error}"))
            status.finished = True
        else:
            self._queue.send(message)
        return uid

    def _tokenize_one(self, prompt: Prompt) -> torch.Tensor:
        """(n,) int32 on the CPU; the scheduler checks what it says.

        Raises:
            ValueError: not text or a list of whole numbers that a vocabulary could hold.
        """
        if not isinstance(prompt, str | list | tuple):
            raise ValueError(f"a prompt is text or a list of token ids, not {prompt!r:.60}.")
        ids = self.tokenizer.encode(prompt) if isinstance(prompt, str) else prompt
        vocab = self.engine.sampler.vocab_size
        numbers: list[int] = []
        for token in ids:
            try:
                numbers.append(index(token))
            except TypeError:
                what = f"{token!r:.60} is no whole number of"
                raise ValueError(f"token id {what} the vocabulary [0, {vocab}).") from None
            if not 0 <= numbers[-1] < 2**31:
                raise ValueError(f"token id {token} is outside the vocabulary [0, {vocab}).")
        return torch.tensor(numbers, dtype=torch.int32)

    def _listed(self, prompts: Iterable[Prompt]) -> list[Prompt]:
        if isinstance(prompts, str | bytes):
            raise ValueError(f"prompts is one string, {prompts[:40]!r}; give a list of prompts.")
        return list(prompts)

    def _text(self, token_ids: list[int]) -> str:
        try:
            return self.tokenizer.decode(token_ids)
        except (ValueError, ImportError):  # no tokenizer with this model, or none installed
            return ""

    def _one_each(
        self, prompts: Sequence[Any], params: SamplingParams | Sequence[SamplingParams] | None
    ) -> Sequence[SamplingParams]:
        if params is None or isinstance(params, SamplingParams):
            return [params or SamplingParams()] * len(prompts)
        if not isinstance(params, Sequence):
            raise ValueError(f"sampling_params {params!r:.60} is neither one for all nor a list.")
        if len(params) != len(prompts):
            raise ValueError(f"{len(prompts)} prompts and {len(params)} sampling_params; one each.")
        return params

    def _deliver(self) -> None:
        """Hand this turn's results to the streams that wait for them."""
        replies, self._queue.replies = self._queue.replies, []
        for reply in replies:
            status = self.status_map.get(reply.uid)
            if status is not None:
                status.events.append(TokenEvent(status.index, reply.next_token, reply.reason))
                status.finished = reply.finished

    def _take(self, uids: list[int]) -> Iterator[TokenEvent]:
        for uid in uids:
            status = self.status_map.get(uid)
            while status is not None and status.events:
                yield status.events.popleft()
            if status is not None and status.finished:
                del self.status_map[uid]

    def _drop(self, uids: list[int]) -> None:
        """Abort those of ``uids`` that still run, and turn the loop until they are released."""
        running = [uid for uid in uids if self.status_map.pop(uid, None) is not None]
        if not running or self.closed:
            return
        self._queue.send(*(AbortBackendMsg(uid) for uid in running))
        if self._in_turn:  # closed from inside a turn, by a hook or the garbage collector
            return  # the next turn takes the messages
        self.run_turn()
        while self.overlap and self._last_data is not None and not self.status_map:
            self.run_turn()

    @property
    def _queue(self) -> MessageQueue:
        assert isinstance(self.io, MessageQueue)
        return self.io


__all__ = ["LLM", "DetokenizeMsg", "PreferredModel", "TokenEvent"]
