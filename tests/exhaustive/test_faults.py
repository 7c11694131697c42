"""Each fault that is put in shows in a stream of the bound, or there is a reason why none can."""

from __future__ import annotations

from typing import get_type_hints

import pytest

from exhaustive.device import Violation
from exhaustive.faults import FAULTS
from exhaustive.report import describe, from_json, tell, to_json
from exhaustive.sweep import hunt, run_case
from minisgl_lite.teaching.published import PUBLISHED, Behaviour

SEEN = [name for name, fault in FAULTS.items() if not fault.unseen]
UNSEEN = [name for name, fault in FAULTS.items() if fault.unseen]


@pytest.mark.parametrize("name", SEEN)
def test_fault_is_found(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    fault = FAULTS[name]
    _, finding = hunt(fault.kit, fault.fits)
    assert finding is not None, f"no stream shows the fault '{name}'"
    case = from_json(to_json(finding.case))
    with pytest.raises(Violation, match=finding.kind):
        run_case(case, fault.kit)
    assert run_case(case).turns > 0  # without the fault the same stream is right
    assert not tell(case, fault.kit)
    assert capsys.readouterr().out.startswith(describe(case))


@pytest.mark.parametrize("name", UNSEEN)
def test_fault_that_no_run_can_show_shows_in_none(name: str) -> None:
    fault = FAULTS[name]
    runs, finding = hunt(fault.kit, fault.fits)
    assert runs > 300
    assert finding is None, f"{finding.text}: {describe(finding.case)}"


def test_every_published_behaviour_is_among_the_faults() -> None:
    built = [
        {base for part in (fault.kit.scheduler, *fault.kit.managers) for base in part.__mro__}
        for fault in FAULTS.values()
    ]
    for name in PUBLISHED.supported_names():
        behaviour = PUBLISHED[name]
        parts = {getattr(behaviour, part) for part in get_type_hints(Behaviour)}
        own = {part for part in parts if part.__module__ == behaviour.__module__}
        assert any(own <= classes for classes in built), f"no planted fault is {name}"
