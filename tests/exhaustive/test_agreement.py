"""The sweep's lean checks against the full ones: the KV sanitizer and an audit of their own."""

from __future__ import annotations

from itertools import islice
from typing import Any

import pytest
from helpers.books import audit, audit_idle

from exhaustive.device import JUNK, Cast, Violation
from exhaustive.faults import FAULTS
from exhaustive.naming import EOS
from exhaustive.play import RIGHT, Kit, Mailbox, check_replies, make_cast
from exhaustive.sweep import hunt, sample
from exhaustive.worlds import Abort, Block, Case, aborts, agreements
from minisgl_lite.core import Req
from minisgl_lite.engine.scripted import ScriptedEngine
from minisgl_lite.scheduler import SchedulerConfig
from minisgl_lite.trace import KVSanitizer

STREAMS = 60
WRONG = (Violation, AssertionError, RuntimeError, ValueError, IndexError)


def script(cast: Cast) -> Any:
    """The same answers as the lean device gives, from the made-up engine with a real pool."""

    def answer(req: Req, length: int) -> int:
        tokens = cast.tokens[req.uid]
        return tokens[length] if cast.prompts[req.uid] <= length < len(tokens) else JUNK

    return answer


def play_in_full(case: Case, cast: Cast, kit: Kit = RIGHT, *, audited: bool = True) -> Mailbox:
    """As ``play``, on ``ScriptedEngine``, under the sanitizer, audited after every turn."""
    setting = case.setting
    engine = ScriptedEngine(
        setting.num_pages(case.shapes),
        setting.page_size,
        max_running_req=setting.rows,
        script=script(cast),
        late=setting.overlap,
    )
    config = SchedulerConfig(
        page_size=setting.page_size,
        max_running_req=setting.rows,
        max_extend_tokens=setting.budget,
        cache_type=setting.cache,
        eos_token_id=EOS,
    )
    mailbox = Mailbox(len(case.shapes), set())
    scheduler = kit.scheduler(config, engine, mailbox, managers=kit.managers)
    sanitizer = KVSanitizer(scheduler)
    last = max(case.arrivals[-1], case.abort.turn if case.abort else 0)
    turn, data = 0, None
    while turn <= last or data is not None or scheduler.has_work:
        assert turn < 100
        mailbox.turn = turn
        mailbox.waiting += [
            m for m, t in zip(cast.messages, case.arrivals, strict=True) if t == turn
        ]
        if case.abort is not None and case.abort.turn == turn:
            mailbox.cancel(case.abort.uid)
        if setting.overlap:
            data = scheduler.overlap_loop(data)
        else:
            scheduler.normal_loop()
        if audited:
            audit(scheduler)
        turn += 1
    assert not sanitizer.faults
    if audited:
        audit_idle(scheduler)
    check_replies(cast, mailbox)
    return mailbox


def test_the_full_checks_find_nothing_where_the_lean_ones_find_nothing() -> None:
    for n, (block, common, cast, arrived) in enumerate(islice(sample(2, seed=2), STREAMS)):
        case = Case(block.setting, block.shapes, common, arrived)
        ended = play_in_full(case, cast).ended
        cancelled: list[Abort] = list(aborts(block, arrived, ended))
        if cancelled:
            play_in_full(case._replace(abort=cancelled[n % len(cancelled)]), cast)


IN_THE_ENGINE = [
    name for name, fault in FAULTS.items() if not fault.unseen and fault.kit.device is RIGHT.device
]


@pytest.mark.parametrize("name", IN_THE_ENGINE)
def test_what_the_lean_checks_find_the_full_ones_find(name: str) -> None:
    fault = FAULTS[name]
    _, finding = hunt(fault.kit, fault.fits)
    assert finding is not None
    case = finding.case
    tokens = dict(agreements(Block(case.setting, case.shapes)))[case.common]
    with pytest.raises(WRONG):
        play_in_full(case, make_cast(case.shapes, tokens), fault.kit)
