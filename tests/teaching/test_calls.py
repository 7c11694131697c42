"""Who calls whom: crossings of module borders, in order, counted, and nothing else disturbed."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from minisgl_lite.teaching.calls import Calls, _searched_name, record_calls
from minisgl_lite.toy import Toy


def one_step(**options: tuple[str, ...]) -> Calls:
    toy = Toy(page_size=4, num_pages=8)
    toy.add("the cat sat on", says="the mat")
    return record_calls(toy.step, **options)


def test_a_step_is_told_in_its_order() -> None:
    names = [entry.name for entry in one_step()]
    wanted = ["Scheduler.normal_loop", "CacheManager.match_req", "CacheManager.allocate_paged"]
    wanted += ["ScriptedEngine.forward_batch", "MHAKVCache.store_kv", "CacheManager.cache_req"]
    places = [names.index(name) for name in wanted]
    assert places == sorted(places)


def test_callers_are_modules() -> None:
    calls = one_step()
    assert calls.callers("CacheManager.match_req") == {"scheduler.prefill"}
    assert calls.callers("CacheManager.allocate_paged") == {"scheduler.scheduler"}
    assert calls.callers("nobody") == set()


def test_calls_within_a_module_and_into_quiet_ones_are_not_told() -> None:
    for entry in one_step():
        assert all(inner.module != entry.module for inner in entry.inside.values())
        assert entry.module.split(".")[0] not in ("core", "utils", "hooks", "text")


def test_only_tells_what_lies_in_the_named_modules() -> None:
    calls = one_step(only=("scheduler.cache", "kvcache"))
    assert {entry.module.split(".")[0] for entry in calls} == {"scheduler", "kvcache"}
    assert ("scheduler.cache", "kvcache.radix_cache") in calls.between()


def test_repeated_calls_are_one_entry_with_a_count() -> None:
    toy = Toy(page_size=4, num_pages=8)
    toy.add("the cat sat on", says="the mat on the floor")
    calls = record_calls(lambda: [toy.step() for _ in range(3)])
    assert calls.counts()["CacheManager.allocate_paged"] == 3
    assert "CacheManager.allocate_paged  x 3" in calls.outline()
    assert calls.outline(depth=1).count("\n") == 0


def test_a_former_profile_function_comes_back_even_after_an_error() -> None:
    def former(frame: FrameType, event: str, arg: object) -> None:
        """Somebody else's."""

    sys.setprofile(former)
    try:
        with pytest.raises(ZeroDivisionError):
            record_calls(lambda: 1 / 0)
        assert sys.getprofile() is former
    finally:
        sys.setprofile(None)


def test_a_method_is_named_without_the_help_of_its_code() -> None:
    class Cat:
        def purr(self) -> str:
            frame = sys._getframe()
            return _searched_name(frame, frame.f_code)

        @property
        def name(self) -> str:
            frame = sys._getframe()
            return _searched_name(frame, frame.f_code)

    class Tom(Cat):
        pass

    assert (Tom().purr(), Tom().name) == ("Cat.purr", "Cat.name")
