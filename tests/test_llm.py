"""The offline entry point: what goes in, what comes out, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from helpers.books import audit_idle
from helpers.tiny import PROMPTS, make_llm, run

from minisgl_lite import LLM, SamplingParams

GREEDY = SamplingParams(max_tokens=6, ignore_eos=True)
GOOD = [1, 2, 3]
KEYS = {"text", "token_ids", "finish_reason", "error"}


def ids_of(results: list[dict]) -> list[list[int]]:
    return [result["token_ids"] for result in results]


# --- results -------------------------------------------------------------------------------------


def test_one_dict_per_prompt_in_order() -> None:
    with make_llm() as llm:
        results = llm.generate(PROMPTS, GREEDY)
        assert [set(result) for result in results] == [KEYS] * 3
        assert ids_of(results) == list(run(llm).values())
        for result in results:
            assert result["text"] == llm.tokenizer.decode(result["token_ids"])
            assert result["finish_reason"] == "length" and result["error"] is None


def test_strings_and_their_ids_give_the_same() -> None:
    with make_llm() as llm:
        texts = ["The cat sat", "A dog"]
        ids = [llm.tokenizer.encode(text) for text in texts]
        assert llm.generate(texts, GREEDY) == llm.generate(ids, GREEDY)


def test_params_one_for_all_or_one_each() -> None:
    with make_llm() as llm:
        each = [replace(GREEDY, max_tokens=n) for n in (1, 4, 2)]
        assert [len(ids) for ids in ids_of(llm.generate(PROMPTS, each))] == [1, 4, 2]
        with pytest.raises(ValueError, match=r"3.*2"):
            llm.generate(PROMPTS, each[:2])
        with pytest.raises(ValueError, match="one string"):
            llm.generate("The cat sat", GREEDY)  # type: ignore[arg-type]
        assert llm.generate([], GREEDY) == []


@pytest.mark.parametrize("overlap", [False, True])
def test_the_token_that_ends_a_text_is_not_part_of_it(overlap: bool) -> None:
    with make_llm(overlap=overlap) as plain:
        (first,) = ids_of(plain.generate([GOOD], GREEDY))
    stop = first[2]
    end = first.index(stop)
    with make_llm(overlap=overlap, eos_token_id=stop) as llm:
        (result,) = llm.generate([GOOD], SamplingParams(max_tokens=6))
        assert result["token_ids"] == first[:end]
        assert result["finish_reason"] == "stop"
        (ignoring,) = llm.generate([GOOD], GREEDY)
        assert ignoring["token_ids"] == first


def test_a_shared_sampling_params_is_clipped_on_a_copy() -> None:
    params = SamplingParams(max_tokens=16, ignore_eos=True)
    with make_llm(page_size=4, num_pages=32, max_seq_len_override=32) as llm:
        results = llm.generate([[1] * 4, [2] * 30], params)
        assert [len(ids) for ids in ids_of(results)] == [16, 2]
    assert params == SamplingParams(max_tokens=16, ignore_eos=True)


def test_prompts_given_as_lists_are_not_changed() -> None:
    prompts = [list(prompt) for prompt in PROMPTS]
    with make_llm() as llm:
        llm.generate(prompts, GREEDY)
    assert prompts == PROMPTS


# --- the same tokens, whatever the setting -------------------------------------------------------


@pytest.mark.parametrize("page_size", [1, 3, 4, 48, 256])
@pytest.mark.parametrize("cache_type", ["radix", "naive"])
@pytest.mark.parametrize("overlap", [False, True])
def test_settings_do_not_change_what_is_said(
    page_size: int, cache_type: str, overlap: bool
) -> None:
    prompts = [[*range(40, 60)], [*range(40, 55), 1], [7], [*range(40, 60)], [9] * 13]
    with make_llm(num_pages=64) as llm:
        want = [llm.generate([prompt], GREEDY)[0] for prompt in prompts]
    sizes = {"page_size": page_size, "num_pages": max(3, 60 // page_size)}
    variants = ({}, {"max_extend_tokens": 6}, {"cuda_graph_bs": [1, 2, 4]}, {"max_running_req": 2})
    for variant in variants:
        with make_llm(cache_type=cache_type, overlap=overlap, **{**sizes, **variant}) as llm:
            assert llm.generate(prompts, GREEDY) == want, variant
            assert llm.generate(prompts[:2], GREEDY) == want[:2], variant
            audit_idle(llm)


def test_a_seeded_request_says_the_same_alone_and_among_others() -> None:
    params = SamplingParams(temperature=1.0, seed=5, max_tokens=8, ignore_eos=True)
    other = SamplingParams(temperature=2.0, max_tokens=8, ignore_eos=True)
    with make_llm() as llm:
        (alone,) = ids_of(llm.generate([GOOD], params))
    with make_llm(max_extend_tokens=2) as llm:
        among = ids_of(llm.generate([[9, 9], GOOD, [8]], [other, params, GREEDY]))[1]
    assert among == alone


# --- streaming -----------------------------------------------------------------------------------


def test_stream_yields_what_generate_returns() -> None:
    with make_llm() as llm:
        want = ids_of(llm.generate(PROMPTS, GREEDY))
        got: list[list[int]] = [[] for _ in PROMPTS]
        reasons: list[list[str | None]] = [[] for _ in PROMPTS]
        for index, token, reason in llm.stream(PROMPTS, GREEDY):
            got[index].append(token)
            reasons[index].append(reason)
        assert got == want
        assert reasons == [[None] * 5 + ["length"]] * 3


@pytest.mark.parametrize("overlap", [False, True])
def test_closing_a_stream_aborts_what_still_runs(overlap: bool) -> None:
    with make_llm(overlap=overlap) as llm:
        stream = llm.stream(PROMPTS, SamplingParams(max_tokens=50, ignore_eos=True))
        next(stream)
        stream.close()
        audit_idle(llm)
        assert ids_of(llm.generate(PROMPTS, GREEDY)) == list(run(llm).values())


@pytest.mark.parametrize("overlap", [False, True])
def test_two_streams_at_once_keep_apart(overlap: bool) -> None:
    with make_llm(overlap=overlap) as llm:
        want = ids_of(llm.generate(PROMPTS[:2], GREEDY))
        streams = [llm.stream([prompt], GREEDY) for prompt in PROMPTS[:2]]
        got: list[list[int]] = [[], []]
        for _ in range(6):
            for said, stream in zip(got, streams, strict=True):
                said.append(next(stream).token)
        assert got == want
        streams[0].close()
        assert next(streams[1], None) is None
        audit_idle(llm)


@pytest.mark.parametrize("overlap", [False, True])
def test_ctrl_c_leaves_the_engine_usable(overlap: bool) -> None:
    with make_llm(overlap=overlap) as llm:
        want = ids_of(llm.generate(PROMPTS, GREEDY))
        turns = llm.run_turn
        left = 3

        def interrupted() -> None:
            nonlocal left
            left -= 1
            turns()
            if left == 0:
                raise KeyboardInterrupt

        llm.run_turn = interrupted  # type: ignore[method-assign]
        with pytest.raises(KeyboardInterrupt):
            llm.generate(PROMPTS, GREEDY)
        llm.run_turn = turns  # type: ignore[method-assign]
        audit_idle(llm)
        assert ids_of(llm.generate(PROMPTS, GREEDY)) == want


# --- bad input -----------------------------------------------------------------------------------

BAD = {
    "empty-ids": ([], {}, ["empty"]),
    "longer-than-the-pool": ([1] * 200, {}, ["200", "95"]),
    "negative-id": ([1, -4], {}, ["-4", "258"]),
    "id-beyond-the-vocabulary": ([1, 258], {}, ["258"]),
    "huge-id": ([1, 2**40], {}, [str(2**40), "258"]),
    "no-id-at-all": ([1, "x"], {}, ["'x'", "258"]),
    "max-tokens-0": (GOOD, {"max_tokens": 0}, ["max_tokens", "0", "1"]),
    "max-tokens-negative": (GOOD, {"max_tokens": -2}, ["max_tokens", "-2"]),
    "temperature-negative": (GOOD, {"temperature": -1.0}, ["temperature", "-1.0"]),
    "temperature-infinite": (GOOD, {"temperature": float("inf")}, ["temperature", "inf"]),
    "top-k-0": (GOOD, {"top_k": 0}, ["top_k", "0"]),
    "top-p-above-1": (GOOD, {"top_p": 1.5}, ["top_p", "1.5"]),
}


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize(("prompt", "params", "words"), BAD.values(), ids=BAD)
def test_a_bad_prompt_gets_its_own_error_and_stops_nobody(
    prompt: list, params: dict, words: list[str], overlap: bool
) -> None:
    with make_llm(overlap=overlap) as llm:
        (want,) = ids_of(llm.generate([GOOD], GREEDY))
        prompts = [GOOD, prompt, GOOD]
        results = llm.generate(prompts, [GREEDY, replace(GREEDY, **params), GREEDY])
        assert ids_of(results) == [want, [], want]
        assert [result["error"] is None for result in results] == [True, False, True]
        error = results[1]["error"]
        assert isinstance(error, str) and "\n" not in error
        assert all(word in error for word in words), error
        assert results[1]["text"] == ""
        assert results[1]["finish_reason"] == "error"
        audit_idle(llm)


def test_an_empty_string_is_the_tokenizers_business_or_an_error() -> None:
    """Whether a text of no characters has tokens depends on the tokenizer; nobody else suffers."""
    with make_llm() as llm:
        results = llm.generate(["", "ok"], GREEDY)
        assert results[1]["error"] is None
        assert (results[0]["error"] is None) == bool(llm.tokenizer.encode(""))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"page_size": 0}, ["page_size", "0"]),
        ({"page_size": -4}, ["page_size", "-4"]),
        ({"num_pages": 0}, ["0"]),
        ({"cache_type": "lru"}, ["lru", "radix", "naive"]),
        ({"max_running_req": 0}, ["max_running_req", "0"]),
        ({"max_extend_tokens": 0}, ["max_extend_tokens", "0"]),
        ({"attention_backend": "nope"}, ["nope", "torch"]),
        ({"device": "tpu"}, ["tpu", "cpu"]),
        ({"cuda_graph_bs": [0]}, ["cuda_graph_bs", "0"]),
        ({"cuda_graph_max_bs": -1}, ["cuda_graph_max_bs", "-1"]),
        ({"max_seq_len_override": 0}, ["max_seq_len", "0"]),
    ],
)
def test_bad_settings_are_refused_in_one_line(settings: dict, words: list[str]) -> None:
    with pytest.raises(ValueError) as error:
        make_llm(**settings)
    text = str(error.value)
    assert "\n" not in text
    assert all(word in text for word in words), text


def test_an_unknown_model_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError) as error:
        LLM("no-such-model")
    assert "no-such-model" in str(error.value) and "\n" not in str(error.value)
    assert "tiny" in str(error.value)


def test_an_unknown_setting_is_refused() -> None:
    with pytest.raises(TypeError, match="page_sise"):
        make_llm(page_sise=4)


def test_a_model_without_a_tokenizer_answers_ids_with_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_tokenizer() -> None:
        raise ValueError("no tokenizer.json in this folder.")

    with make_llm(num_pages=16) as llm:
        want = llm.generate([[1, 2, 3]], GREEDY)[0]["token_ids"]
        monkeypatch.setattr(llm.engine.loaded.source, "tokenizer", no_tokenizer)
        result, refused = llm.generate([[1, 2, 3], "words"], GREEDY)
    assert (result["token_ids"], result["text"], result["error"]) == (want, "", None)
    assert refused["error"] == "no tokenizer.json in this folder."
