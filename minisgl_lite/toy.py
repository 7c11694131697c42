"""A run small enough to hold in the hand: words are tokens, and the model says what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from .core import Req, SamplingParams
from .engine.scripted import ScriptedEngine
from .message import AbortBackendMsg, UserMsg
from .scheduler import Managers, MessageQueue, Scheduler, SchedulerConfig
from .scheduler.scheduler import ForwardData

EOS = "<eos>"
"""The word that ends a text."""


class WordTokenizer:
    """Numbers words as they come; ``<eos>`` is 0. A word's bytes begin with its space."""

    special_ids = frozenset({0})

    def __init__(self) -> None:
        self._ids = {EOS: 0}

    def encode(self, text: str) -> list[int]:
        return [self._ids.setdefault(word, len(self._ids)) for word in text.split()]

    def decode(self, ids: Sequence[int]) -> str:
        return b"".join(map(self.token_bytes, ids)).decode().strip()

    def token_bytes(self, token_id: int) -> bytes:
        """The word's bytes; an id that no word has is shown as its number."""
        words = list(self._ids)
        word = words[token_id] if token_id < len(words) else str(token_id)
        return f" {word}".encode()


class Toy(Scheduler):
    """The real scheduler, managers and pool around a made-up model, on a CPU, without weights.

    ::

        toy = Toy(page_size=4, num_pages=8)
        toy.add("the cat sat on", says="the mat .")
        toy.run()

    Requests are numbered from 1. ``overlap`` takes the overlapped loop; ``late``: its device runs
    each step as late as the host allows. The rest is as in ``LLM``.
    """

    def __init__(
        self,
        *,
        page_size: int = 4,
        num_pages: int = 8,
        cache_type: str = "radix",
        max_running_req: int = 4,
        max_extend_tokens: int = 8192,
        overlap: bool = False,
        late: bool = False,
        cuda_graph_bs: Sequence[int] = (),
        managers: Managers = Managers(),  # noqa: B008 - an immutable tuple of classes
    ) -> None:
        config = SchedulerConfig(
            model_path="toy",
            page_size=page_size,
            num_page_override=num_pages,
            cache_type=cache_type,
            max_running_req=max_running_req,
            max_extend_tokens=max_extend_tokens,
            eos_token_id=0,
        )
        config.validate()
        engine = ScriptedEngine(
            num_pages,
            page_size,
            max_running_req=max_running_req,
            script=self._say,
            late=late,
            graph_bs=cuda_graph_bs,
        )
        super().__init__(config, engine, MessageQueue(), managers=managers)
        self.config = config
        self._settings: dict[str, Any] = {
            "page_size": page_size,
            "num_pages": num_pages,
            "cache_type": cache_type,
            "max_running_req": max_running_req,
            "max_extend_tokens": max_extend_tokens,
            "overlap": overlap,
            "late": late,
            "cuda_graph_bs": tuple(cuda_graph_bs),
            "managers": managers,
        }
        self.overlap = overlap
        self.tokenizer = WordTokenizer()
        self._answers: dict[int, list[int]] = {}
        self._last_data: ForwardData | None = None

    def add(
        self,
        prompt: str | Sequence[int],
        says: str | Sequence[int] = (),
        *,
        max_tokens: int | None = None,
        uid: int | None = None,
    ) -> int:
        """Send a request and the answer it will get; returns its uid.

        ``prompt``, ``says``: words, or token ids. ``max_tokens``: as many as it ``says``; beyond
        that it repeats its last word.
        """
        uid = max(self._answers, default=0) + 1 if uid is None else uid
        if uid in self._live_uids() or any(msg.uid == uid for msg in self._queue.waiting):
            raise ValueError(f"request {uid} still runs; take another uid.")
        answer = self._ids(says) or [1]
        self._answers[uid] = answer
        params = SamplingParams(max_tokens=len(answer) if max_tokens is None else max_tokens)
        ids = torch.tensor(self._ids(prompt), dtype=torch.int32)
        self._queue.send(UserMsg(uid, ids, params))
        return uid

    def abort(self, uid: int) -> None:
        """Cancel a request at the beginning of the next turn."""
        self._queue.send(AbortBackendMsg(uid))

    def step(self) -> None:
        """One turn of the loop."""
        if self.overlap:
            self._last_data = self.overlap_loop(self._last_data)
        else:
            self.normal_loop()

    def run(self, max_turns: int = 10_000) -> None:
        """Turn until every request is answered.

        Raises:
            RuntimeError: something still waits after ``max_turns``.
        """
        for _ in range(max_turns):
            if not (self.has_work or self._queue.waiting):
                return
            self.step()
        raise RuntimeError(f"requests still wait after {max_turns} turns.")

    def fork(self, **changes: Any) -> Toy:
        """A new toy with other settings and nothing in it: ``toy.fork(page_size=2)``.

        Words keep their numbers. This one is left as it is.

        Raises:
            ValueError: a setting has another name, or a value that is not allowed.
        """
        if unknown := sorted(set(changes) - set(self._settings)):
            names = ", ".join(self._settings)
            raise ValueError(f"a toy has no {', '.join(unknown)}; it has {names}.")
        other = Toy(**(self._settings | changes))
        other.tokenizer = self.tokenizer
        return other

    def text(self, uid: int) -> str:
        """What request ``uid`` has been told so far."""
        tokens = [r.next_token for r in self._queue.replies if r.uid == uid and r.next_token >= 0]
        return self.tokenizer.decode(tokens)

    def _ids(self, words: str | Sequence[int]) -> list[int]:
        return self.tokenizer.encode(words) if isinstance(words, str) else list(words)

    def _say(self, req: Req, device_len: int) -> int:
        """The request's next scripted token; ``device_len`` tokens have K/V after this step."""
        answer = self._answers[req.uid]
        count = device_len - (req.max_device_len - req.output_len)
        return answer[min(count, len(answer) - 1)]

    @property
    def _queue(self) -> MessageQueue:
        assert isinstance(self.io, MessageQueue)
        return self.io


__all__ = ["EOS", "Toy", "WordTokenizer"]
