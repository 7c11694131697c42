"""A trace: what a scheduler did, step by step, as plain data.

The format, version 2
=====================

A trace is one JSON object::

    {"format": "minisgl-lite-trace", "version": 2, "digest": "<sha256>",
     "meta": {...}, "vocab": {"<token id>": "<its bytes in hex>"}, "frames": [frame, ...]}

A file is this JSON, gzipped when its name ends in ``.gz``. In a page it travels as text, base64 of
zlib's deflate, with ``packed`` instead of ``frames``: the same frames without what the state before
each foretells (``trace/packing.py``; ``viz/static/unpack.js`` makes them whole again).

``digest`` is taken over everything but itself, ``wall`` and ``meta.package``; it shows an edited
file, and names the run in links. ``vocab`` holds the tokens that occur, except those whose
bytes nobody knows. ``wall``, if present, has one number per frame: seconds since the recording
began.

**meta**: ``model``, ``mode`` (``exact`` or ``quick``), ``dtype``, ``page_size`` P, ``num_pages`` N,
``rows`` (table rows without the dummy's), ``width`` W of a row, ``cache_type``, ``loop``
(``normal`` or ``overlap``), ``package``, ``eos`` and ``special`` (token ids), ``budget``
(``max_extend_tokens``), ``graph_bs`` (the batch sizes that are padded to).

**frame**: one phase of one turn of the loop. ``turn``; ``sub``, counted from 0 in each turn;
``phase``; ``lane``, ``host`` or ``device``; ``batch``, the number of the batch it belongs to, or
null; ``rank``. The phases, in the order in which a turn can meet them::

    receive  abort  admit  evict  allocate  prepare  forward  sample  release

``receive`` and ``abort`` alternate as the messages do. ``sample`` and ``release`` belong to the
batch whose results are read: in the overlap loop that is the batch of the turn before. A phase in
which nothing happened has no frame.

A frame carries what changed. Slots stand as runs ``[first, count]`` of consecutive numbers::

    "reqs": {"<uid>": {the fields that changed, of these}}
        state           waiting, prefill, chunk, decode, done, aborted or rejected
                        a "waiting" request is a new one, even if its uid was used before
        row, cached_len, device_len, input_len, max_device_len        row is null without one
        handle_len      cached_len of the prefix-cache handle; node: the handle's node, or null
        ids             token ids to append;  shown: how many output tokens were sent
        reason          null, "stop", "length" or "error: ..."
    "free": {"take": pages taken at the head, "put": [page starts that join the tail]}
        take comes first
    "table": [[row, position, runs], ...]        the cells of page_table that were written
    "tree": in this order; node 0 is the root
        ["add", id, parent, [token ids], runs, time]
        ["split", upper, lower, length, time of upper]
                        lower was there; the new node upper takes the first tokens of it
        ["ref", id, ref_count]    ["time", id, time]    ["del", id]
    "admit": [{"uid", "row", "matched", "chunk"}, ...]
        matched: tokens found in the cache; chunk: more of the prompt is to come
    "refuse": {"uid", "need", "reserved", "available", "why"}        why: "rows" or "pages"
    "reject": [{"uid", "reason"}, ...]           refused for good
    "alloc": [[uid, first page, last page, [page starts]], ...]
    "batch_info": {"phase", "uids", "ext", "cached", "write", "out_loc"}
        phase: "prefill" or "decode"; uids, extend_lens and cached_lens run over the padded
        batch, -1 is the dummy; write: [row, column of token_pool] for each real request;
        out_loc: runs, in model order
    "stored": true      the K/V of this batch's out_loc are written; "reqs" has the new lengths
    "tokens": [[uid, token, shown, finished, reason], ...]
    "release": [{"uid", "finished", "ranges": [[kind, start, end, runs], ...], "remapped"}, ...]
        kind: matched, duplicate, registered, tail (freed) or kept; empty ranges are left out
        remapped: null, or runs of the cached slots that took the duplicates' cells ("table" has
        them too)
    "fault": {"kind", "text", "uid", "position", "layer", "slot"}
        what the KV sanitizer found up to here; the first of it, if it is more
    "more_faults": [the others, each like "fault", in the order in which they were found]

What follows from these is not stored but replayed (``minisgl_lite.trace.State``): who owns a slot,
what is read, what is free. At the start ``free`` is every page in order, and the tree is its root,
node 0 with ref_count 1.

Names of frames
===============

``Trace.find`` resolves the name of an event to the index of the first frame that fits; with ``#2``
behind it, of the second::

    start   end   turn:5
    <phase>   <phase>:r1          evict, admit:r2, prepare:r1, release:r1
    token:r1:3                    r1's output token 3 is sampled, counted from 0
    first-decode:r1               the first decode batch with r1 is prepared
    hit:r1   chunk:r1             r1 is admitted with a cached prefix; as a part of its prompt
    refuse:r1   reject:r1         r1 has to wait; r1 is refused for good
    finish:r1   split   fault     r1's last token; a node is split; the sanitizer found something
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from .compare import Difference, first_difference, vocab_difference
from .events import find_event
from .packing import pack, unpack
from .replay import Replay, State
from .soundness import check_frames, check_meta

FORMAT = "minisgl-lite-trace"
VERSION = 2

Frame: TypeAlias = dict[str, Any]


class TraceError(ValueError):
    """A trace that cannot be read: another version, cut short, edited, or no trace at all."""


def _compact(data: object) -> bytes:
    return json.dumps(data, separators=(",", ":"), sort_keys=True).encode()


def _unpacked(data: dict[str, Any], source: str) -> list[Frame]:
    try:
        return unpack(data["meta"], data["packed"])
    except (AssertionError, IndexError, KeyError, StopIteration, TypeError, ValueError):
        raise TraceError(f"{source} was changed: its packed frames do not unpack") from None


@dataclass
class Trace:
    """Frames with what is needed to read them. The module's text describes the format."""

    meta: dict[str, Any]
    frames: list[Frame]
    vocab: dict[int, bytes] = field(default_factory=dict)
    wall: list[float] | None = None

    def __len__(self) -> int:
        return len(self.frames)

    # ---- as data -----------------------------------------------------------------------------
    def to_dict(self, *, wall: bool = True) -> dict[str, Any]:
        """The JSON object of the format, digest included."""
        data: dict[str, Any] = {"format": FORMAT, "version": VERSION, "digest": self.digest()}
        data |= self._content()
        if wall and self.wall is not None:
            data["wall"] = self.wall
        return data

    def _content(self) -> dict[str, Any]:
        vocab = {str(token): self.vocab[token].hex() for token in sorted(self.vocab)}
        return {"meta": self.meta, "vocab": vocab, "frames": self.frames}

    def digest(self) -> str:
        """SHA-256 of the run, in hex: equal runs have equal digests, whenever they were made."""
        content = self._content()
        content["meta"] = {k: v for k, v in self.meta.items() if k != "package"}
        return hashlib.sha256(_compact([FORMAT, VERSION, content])).hexdigest()

    @classmethod
    def from_dict(cls, data: object, *, source: str = "trace") -> Trace:
        """Check a JSON object of the format and take it over.

        Raises TraceError when it is no trace, of another version, incomplete, or was edited.
        """
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise TraceError(f"{source} is not a {FORMAT}")
        if (version := data.get("version")) != VERSION:
            raise TraceError(
                f"{source} has trace version {version!r}, this package reads version {VERSION}; "
                "record it anew: minisgl-lite generate PROMPT --trace FILE"
            )
        frames = "packed" if "packed" in data else "frames"
        if missing := [key for key in ("digest", "meta", "vocab", frames) if key not in data]:
            raise TraceError(f"{source} is incomplete: {', '.join(missing)} missing")
        try:
            check_meta(data["meta"])
        except ValueError as error:
            raise TraceError(f"{source} was changed: {error}") from None
        if frames == "packed":
            data = data | {"frames": _unpacked(data, source)}
        try:
            vocab = {int(token): bytes.fromhex(text) for token, text in data["vocab"].items()}
        except (AttributeError, TypeError, ValueError):
            raise TraceError(f"{source} was changed: its vocab is not hex by token id") from None
        trace = cls(data["meta"], data["frames"], vocab, data.get("wall"))
        if trace.digest() != data["digest"]:
            raise TraceError(
                f"{source} was changed after it was recorded: its digest is {trace.digest()[:12]}, "
                f"the file says {str(data['digest'])[:12]}"
            )
        try:
            check_frames(trace.meta, trace.frames)
        except ValueError as error:
            raise TraceError(f"{source} holds no run: {error}") from None
        return trace

    # ---- as a file ---------------------------------------------------------------------------
    def save(self, path: str | Path, *, wall: bool = True) -> Path:
        """Write JSON, gzipped when the name ends in ``.gz``. Equal traces give equal bytes."""
        path = Path(path)
        data = _compact(self.to_dict(wall=wall))
        path.write_bytes(gzip.compress(data, mtime=0) if path.suffix == ".gz" else data)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Trace:
        """Read what ``save`` wrote. Raises TraceError, or OSError if the file can't be read."""
        path = Path(path)
        data = path.read_bytes()
        try:
            return cls._parse(gzip.decompress(data) if path.suffix == ".gz" else data, str(path))
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise TraceError(f"{path} is cut short or not gzip") from None

    @classmethod
    def _parse(cls, data: bytes, source: str) -> Trace:
        try:
            content = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise TraceError(f"{source} is cut short or not JSON: {error}") from None
        return cls.from_dict(content, source=source)

    # ---- in a page ---------------------------------------------------------------------------
    def to_widget(self) -> str:
        """The trace as text for a page: base64 of deflated JSON, frames packed, no wall times."""
        data = self.to_dict(wall=False)
        data["packed"] = pack(self.meta, data.pop("frames"))
        return base64.b64encode(zlib.compress(_compact(data), 9)).decode()

    @classmethod
    def from_widget(cls, text: str) -> Trace:
        """Read what ``to_widget`` made. Raises TraceError."""
        try:
            data = zlib.decompress(base64.b64decode(text, validate=True))
        except (ValueError, zlib.error):
            raise TraceError("the widget's trace is cut short or not base64 of deflate") from None
        return cls._parse(data, "the widget's trace")

    # ---- reading -----------------------------------------------------------------------------
    def find(self, event: str) -> int:
        """The index of the frame that an event's name means. Raises ValueError if there is none."""
        return find_event(self.frames, event)

    def replay(self) -> Replay:
        """A player over this trace that keeps keyframes; one is enough for many look-ups."""
        return Replay(self)

    def state_at(self, index: int) -> State:
        """The state after frame ``index``; -1 is before the first. Replays from the start."""
        return self.replay().state_at(index)

    def compare(self, other: Trace) -> Difference | None:
        """Where the other run first differs: by output token, by turn, or by what a token means.

        None if nowhere.
        """
        found = first_difference(self.frames, other.frames)
        return found or vocab_difference(self.vocab, other.vocab)

    def token_text(self, token: int) -> str:
        """A token's bytes as UTF-8, parts of a character as U+FFFD; ``#id`` if unknown."""
        if token not in self.vocab:
            return f"#{token}"
        return self.vocab[token].decode("utf-8", errors="replace")
