"""Play a trace's frames: the state after any of them, and what follows from it for each slot.

``State`` is the scheduler's visible state as plain Python: requests, free pages, table rows, tree.
Forward it is changed by ``apply``; backward nothing is undone, ``Replay`` starts from a keyframe.
"""

from __future__ import annotations

import copy
from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .runs import from_runs

if TYPE_CHECKING:
    from .trace import Trace

SlotState = Literal["free", "own", "shared", "evictable", "locked", "dummy", "lost"]
"""``own``: in a live request's row, beyond its handle. In the tree: ``evictable``, nobody holds it;
``locked``, one live row does; ``shared``, several do. ``lost``: neither of these, nor free."""

KEYFRAME_EVERY = 25
LIVE_STATES = ("prefill", "chunk", "decode")


@dataclass
class ReqState:
    """A request as the trace tells it. ``alloc_end``: where its pages end, as a position."""

    uid: int
    state: str = "waiting"
    row: int | None = None
    cached_len: int = 0
    device_len: int = 0
    input_len: int = 0
    max_device_len: int = 0
    handle_len: int = 0
    node: int | None = None
    ids: list[int] = field(default_factory=list)
    shown: int = 0
    reason: str | None = None
    alloc_end: int = 0

    @property
    def extend_len(self) -> int:
        return self.device_len - self.cached_len

    def update(self, changed: dict[str, Any]) -> None:
        for name, value in changed.items():
            if name == "ids":
                self.ids = self.ids + value
            else:
                setattr(self, name, value)
        # A row that is given back takes the request's pages with it.
        self.alloc_end = 0 if self.row is None else max(self.alloc_end, self.handle_len)


@dataclass
class NodeState:
    """A node of the radix tree: tokens, their slots, how many requests hold it, its last use."""

    id: int
    parent: int | None
    key: list[int]
    value: list[int]
    ref_count: int
    time: int
    children: set[int] = field(default_factory=set)


class SlotInfo(NamedTuple):
    """What one slot is. ``holders``: (uid, position) of each live row's cell that points at it."""

    slot: int
    state: SlotState
    node: int | None
    holders: list[tuple[int, int]]
    written_now: bool
    reading: bool


class Balance(NamedTuple):
    """Slots that are free, in the tree, and in flight (a live request's own): the whole pool."""

    free: int
    tree: int
    in_flight: int
    total: int

    @property
    def holds(self) -> bool:
        return self.free + self.tree + self.in_flight == self.total


class State:
    """The state after some frames.

    ``free``: page starts, head first. ``table``: rows of W slots. ``reqs`` by uid, ``tree`` by
    node. Read only; ``apply`` puts new objects in their places.
    """

    def __init__(self, meta: dict[str, Any]) -> None:
        self.page_size: int = meta["page_size"]
        self.num_pages: int = meta["num_pages"]
        self.free = [page * self.page_size for page in range(self.num_pages)]
        self.table = [[0] * meta["width"] for _ in range(meta["rows"])]
        self.reqs: dict[int, ReqState] = {}
        self.tree = {0: NodeState(0, None, [], [], 1, 0)}
        self.turn: int | None = None
        self.frame: dict[str, Any] = {}
        self._batches: dict[int, dict[str, Any]] = {}

    # ---- forward -----------------------------------------------------------------------------
    def apply(self, frame: dict[str, Any]) -> None:
        """Change this state by one frame."""
        self.turn, self.frame = frame["turn"], frame
        free = frame.get("free", {})
        self.free = self.free[free.get("take", 0) :]
        for op in frame.get("tree", ()):
            self.apply_tree(op)
        for row, position, runs in frame.get("table", ()):
            self._write_row(row, position, from_runs(runs))
        for uid, changed in frame.get("reqs", {}).items():
            self._update_req(int(uid), changed)
        for uid, _, last_page, _ in frame.get("alloc", ()):
            self.reqs[uid] = replace(self.reqs[uid], alloc_end=last_page * self.page_size)
        self.free = self.free + free.get("put", [])
        self._note_batch(frame)

    def apply_tree(self, op: list[Any]) -> None:
        """Change the tree by one operation of a frame."""
        getattr(self, f"_tree_{op[0]}")(*op[1:])

    def _write_row(self, row: int, position: int, slots: list[int]) -> None:
        cells = self.table[row].copy()  # rows are shared with keyframes
        cells[position : position + len(slots)] = slots
        self.table[row] = cells

    def _update_req(self, uid: int, changed: dict[str, Any]) -> None:
        known = self.reqs.get(uid)
        new = known is None or changed.get("state") == "waiting"
        req = ReqState(uid) if known is None or new else copy.copy(known)
        req.update(changed)
        self.reqs[uid] = req

    def _note_batch(self, frame: dict[str, Any]) -> None:
        """Keep what the step in flight reads: its rows may have changed before it is shown."""
        if info := frame.get("batch_info"):
            rows = {uid: self.reqs[uid].row for uid in info["uids"] if uid >= 0}
            reads = [
                (uid, self.table[row][: cached + ext])
                for uid, cached, ext in zip(info["uids"], info["cached"], info["ext"], strict=True)
                if uid >= 0 and (row := rows[uid]) is not None
            ]
            self._batches[frame["batch"]] = {"info": info, "reads": reads}
        if frame["phase"] == "sample" and frame["batch"] is not None:
            self._batches = {k: v for k, v in self._batches.items() if k >= frame["batch"]}

    # ---- tree operations, as the frames name them -----------------------------------------------
    def _tree_add(
        self, node: int, parent: int, key: list[int], runs: list[list[int]], time: int
    ) -> None:
        self.tree[node] = NodeState(node, parent, key, from_runs(runs), 0, time)
        self._child(parent).add(node)

    def _tree_split(self, upper: int, lower: int, length: int, time: int) -> None:
        old = self.tree[lower]
        assert old.parent is not None
        head, tail = old.key[:length], old.key[length:]
        self.tree[upper] = NodeState(
            upper, old.parent, head, old.value[:length], old.ref_count, time, {lower}
        )
        siblings = self._child(old.parent)
        siblings.remove(lower)
        siblings.add(upper)
        self.tree[lower] = NodeState(
            lower, upper, tail, old.value[length:], old.ref_count, old.time, old.children
        )

    def _tree_ref(self, node: int, ref_count: int) -> None:
        self._node(node).ref_count = ref_count

    def _tree_time(self, node: int, time: int) -> None:
        self._node(node).time = time

    def _tree_del(self, node: int) -> None:
        parent = self.tree.pop(node).parent
        assert parent is not None
        self._child(parent).remove(node)

    def _node(self, node: int) -> NodeState:
        """The node, a copy of its own: keyframes keep the old one."""
        self.tree[node] = copy.copy(self.tree[node])
        return self.tree[node]

    def _child(self, node: int) -> set[int]:
        own = self._node(node)
        own.children = set(own.children)
        return own.children

    def snapshot(self) -> State:
        """A copy that later frames don't change: items are never changed in place."""
        other = copy.copy(self)
        other.table, other.reqs = self.table.copy(), self.reqs.copy()
        other.tree, other._batches = self.tree.copy(), self._batches.copy()
        return other

    # ---- what follows ------------------------------------------------------------------------
    def live(self) -> list[ReqState]:
        """The requests that hold a table row, in order of arrival."""
        return [req for req in self.reqs.values() if req.row is not None]

    def row(self, req: ReqState) -> list[int]:
        """The slots of a live request's row that mean something: up to the end of its pages."""
        assert req.row is not None
        return self.table[req.row][: req.alloc_end]

    def written_now(self) -> list[int]:
        """The slots whose K/V this frame has just stored, in model order, the dummy's too."""
        if not self.frame.get("stored"):
            return []
        return from_runs(self._batches[self.frame["batch"]]["info"]["out_loc"])

    def reading(self) -> dict[int, list[int]]:
        """uid → the slots that attention reads in this frame's step, by position."""
        if not self.frame.get("stored"):
            return {}
        return dict(self._batches[self.frame["batch"]]["reads"])

    def owned(self, req: ReqState) -> list[int]:
        """A live request's own slots: behind its handle, up to the end of its pages."""
        return [] if req.row is None else self.row(req)[req.handle_len :]

    def balance(self) -> Balance:
        """Counts of distinct slots by owner."""
        free = {page + i for page in self.free for i in range(self.page_size)}
        tree = {slot for node in self.tree.values() for slot in node.value}
        own = {slot for req in self.live() for slot in self.owned(req)}
        return Balance(len(free), len(tree), len(own), self.num_pages * self.page_size)

    def conflicts(self) -> list[int]:
        """Slots that have more than one owner, or none: empty as long as the engine is right."""
        count = Counter(page + i for page in self.free for i in range(self.page_size))
        count.update(slot for node in self.tree.values() for slot in node.value)
        count.update(slot for req in self.live() for slot in self.owned(req))
        return [slot for slot in range(self.num_pages * self.page_size) if count[slot] != 1]

    def slots(self) -> list[SlotInfo]:
        """Every slot of the pool in order, the dummy page behind it."""
        total = self.num_pages * self.page_size
        free = {page + i for page in self.free for i in range(self.page_size)}
        nodes = {slot: node for node in self.tree.values() for slot in node.value}
        own = {slot for req in self.live() for slot in self.owned(req)}
        holders: dict[int, list[tuple[int, int]]] = {}
        for req in self.live():
            for position, slot in enumerate(self.row(req)):
                holders.setdefault(slot, []).append((req.uid, position))
        written, reading = set(self.written_now()), self.reading()
        read = {slot for slots in reading.values() for slot in slots}
        infos = []
        for slot in range(total + self.page_size):
            held, node = holders.get(slot, []), nodes.get(slot)
            state = _slot_state(slot >= total, slot in own, node, len(held), slot in free)
            infos.append(
                SlotInfo(
                    slot, state, node.id if node else None, held, slot in written, slot in read
                )
            )
        return infos


def _slot_state(
    dummy: bool, own: bool, node: NodeState | None, holders: int, free: bool
) -> SlotState:
    if dummy:
        return "dummy"
    if own:
        return "own"
    if node is not None:
        return "evictable" if node.ref_count == 0 else "shared" if holders > 1 else "locked"
    return "free" if free else "lost"


class Replay:
    """Any state of a trace, forward and back. Keyframes make a jump cost at most 25 frames."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._at = [-1]
        self._keyframes = [State(trace.meta)]

    def state_at(self, index: int) -> State:
        """The state after frame ``index``; -1 is before the first. It is the caller's own.

        Raises ValueError outside [-1, number of frames).
        """
        frames = self.trace.frames
        if not -1 <= index < len(frames):
            raise ValueError(f"frame {index} is not in this trace: -1 to {len(frames) - 1}")
        key = bisect_right(self._at, index) - 1
        state = self._keyframes[key].snapshot()
        for i in range(self._at[key] + 1, index + 1):
            state.apply(frames[i])
            if i - self._at[-1] >= KEYFRAME_EVERY:
                self._at.append(i)
                self._keyframes.append(state.snapshot())
        return state
