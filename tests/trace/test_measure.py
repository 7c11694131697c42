"""Numbers over a run, held against what is counted by hand."""

from __future__ import annotations

from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace
from minisgl_lite.trace.measure import Hit, hit_rate, hits, pool_use


def told(*prompts: tuple[str, str], **settings: object) -> Trace:
    toy = Toy(**settings)  # type: ignore[arg-type]
    with Recorder(toy) as recorder:
        for prompt, answer in prompts:
            toy.add(prompt, says=answer)
            toy.run()
    return recorder.trace()


def test_the_rest_of_the_last_page_is_empty() -> None:
    trace = told(("a b c d e", "f g h"), page_size=4, num_pages=8, cache_type="naive")
    uses = pool_use(trace)
    # Five tokens take two pages; each decode step writes one of the three slots that were left.
    assert [(use.filled, use.empty, use.free) for use in uses] == [
        (5, 3, 24),
        (6, 2, 24),
        (7, 1, 24),
    ]
    assert [use.fragmentation for use in uses] == [3 / 8, 2 / 8, 1 / 8]
    assert [use.utilisation for use in uses] == [5 / 32, 6 / 32, 7 / 32]


def test_pages_of_one_token_have_no_rest() -> None:
    trace = told(("a b c d e", "f g h"), page_size=1, num_pages=32)
    assert {use.fragmentation for use in pool_use(trace)} == {0.0}


def test_slots_of_the_tree_are_held_or_evictable_and_all_add_up() -> None:
    trace = told(("a b c d e", "f"), ("a b c d x", "y z"), page_size=2, num_pages=8)
    uses = pool_use(trace)
    assert [use.total for use in uses] == [16] * len(uses)
    first, second, third = uses
    assert (first.held, first.evictable) == (0, 0), "the tree gets the prompt after its step"
    assert (second.held, second.evictable, second.filled) == (4, 0, 1)
    assert (third.held, third.filled, third.empty) == (4, 2, 0)


def test_the_hit_rate_counts_prompt_tokens_once_per_request() -> None:
    trace = told(("a b c d e", "f"), ("a b c d x y", "z"), ("q", "r"), page_size=2, num_pages=16)
    assert [hit[2:] for hit in hits(trace)] == [(0, 5), (4, 6), (0, 1)]
    assert hit_rate(trace) == 4 / 12


def test_chunks_after_the_first_are_no_hits() -> None:
    trace = told(("a b c d e f g", "h"), page_size=1, num_pages=16, max_extend_tokens=3)
    assert hits(trace) == [Hit(1, 1, 0, 7)]


def test_an_empty_run_has_no_numbers() -> None:
    with Recorder(Toy()) as recorder:
        pass
    trace = recorder.trace()
    assert (pool_use(trace), hits(trace), hit_rate(trace)) == ([], [], 0.0)
