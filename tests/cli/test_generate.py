"""``minisgl-lite generate`` called in this process: what it prints and how it ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from models.checkpoints import BASE, write_folder

from minisgl_lite import LLM, SamplingParams
from minisgl_lite.cli import main
from minisgl_lite.hooks import HookError, Listener
from minisgl_lite.models.tokenizer import ByteTokenizer

COUNTS = re.compile(
    r"(\d+) tokens, (\d+) of (\d+) pages used at most, (\d+) prefix tokens reused, [\d.]+ tokens/s"
)


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def counts(self) -> tuple[int, ...]:
        match = COUNTS.fullmatch(self.out.splitlines()[-1])
        assert match is not None, self.out
        return tuple(int(x) for x in match.groups())


Run = Callable[..., Ran]


@pytest.fixture
def generate(capsys: pytest.CaptureFixture[str]) -> Run:
    """``generate(*args)`` with the tiny model unless another is named."""

    def run(*args: str) -> Ran:
        model = () if "--model" in args else ("--model", "tiny")
        try:
            code = main(["generate", *args, *model])
        except SystemExit as exit_:  # argparse's own errors
            code = int(exit_.code or 0)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    return run


def expected(*prompts: str, tokens: int) -> list[str]:
    with LLM("tiny") as llm:
        params = SamplingParams(max_tokens=tokens)
        return [result["text"] for result in llm.generate(list(prompts), params)]


def test_one_prompt_prints_its_text_and_the_counts(generate: Run) -> None:
    ran = generate("Hello", "--max-tokens", "20", "--page-size", "4", "--num-pages", "9")
    assert ran.code == 0 and ran.err == ""
    assert ran.out.splitlines()[0] == expected("Hello", tokens=20)[0]
    assert ran.counts == (20, 6, 9, 0)


def test_several_prompts_have_headers_in_order(generate: Run) -> None:
    ran = generate("one", "two\n more", "x" * 200, "--max-tokens", "8")
    texts = expected("one", "two\n more", "x" * 200, tokens=8)
    lines = ran.out.splitlines()
    assert lines[0:6:2] == ["[1] one", "[2] two more", "[3] " + "x" * 59 + "…"]
    assert lines[1:6:2] == texts
    assert ran.counts[0] == 24


def test_a_repeated_prefix_is_counted_as_reused(generate: Run) -> None:
    args = ("a" * 20, "a" * 20, "--max-tokens", "4", "--page-size", "4", "--prefill-budget", "20")
    assert generate(*args).counts[3] == 16
    assert generate(*args, "--cache", "naive").counts[3] == 0


def test_equal_seeds_give_equal_text(generate: Run) -> None:
    args = ("abc", "--max-tokens", "30", "--temperature", "30", "--seed")
    first, again, other = (generate(*args, seed).out.splitlines()[0] for seed in ("1", "1", "2"))
    assert first == again != other


def test_top_k_of_one_is_greedy(generate: Run) -> None:
    ran = generate("abc", "--max-tokens", "9", "--temperature", "5", "--top-k", "1")
    assert ran.out.splitlines()[0] == expected("abc", tokens=9)[0]


def test_loop_and_budget_do_not_change_the_text(generate: Run) -> None:
    plain = generate("Hello world", "--max-tokens", "12").out.splitlines()[0]
    args = ("--overlap", "--prefill-budget", "3", "--page-size", "1", "--check")
    assert generate("Hello world", "--max-tokens", "12", *args).out.splitlines()[0] == plain


def test_prompts_may_be_token_ids(generate: Run) -> None:
    ids = ",".join(str(byte) for byte in b"abc")
    text = generate("abc", "--max-tokens", "7").out.splitlines()[0]
    assert generate(ids, "--ids", "--max-tokens", "7").out.splitlines()[0] == text


def test_a_trace_is_written(generate: Run, tmp_path: Path) -> None:
    from minisgl_lite.trace import Trace

    path = tmp_path / "run.json.gz"
    ran = generate("abc", "--max-tokens", "3", "--trace", str(path))
    assert ran.code == 0
    trace = Trace.load(path)
    tokens = [token for frame in trace.frames for token in frame.get("tokens", [])]
    assert len(tokens) == 3


BAD = [
    (["x", "--max-tokens", "0"], "max_tokens 0 is not allowed: 1 or more"),
    (["x", "--max-tokens", "-3"], "max_tokens -3 is not allowed"),
    (["x", "--max-tokens", "many"], "invalid int value: 'many'"),
    (["x", "--page-size", "0"], "page_size 0 is not allowed: 1 or more"),
    (["x", "--page-size", "-16"], "page_size -16 is not allowed"),
    (["x", "--num-pages", "0"], "0 is not allowed: 1 or more"),
    (["x", "--prefill-budget", "0"], "max_extend_tokens 0 is not allowed"),
    (["x", "--temperature", "-0.5"], "temperature -0.5 is not allowed: 0 or more"),
    (["x", "--temperature", "nan"], "temperature nan is not allowed"),
    (["x", "--top-p", "0"], "top_p 0.0 is not allowed"),
    (["x", "--top-k", "0"], "top_k 0 is not allowed"),
    (["x", "--seed", "-1"], "seed -1 is not allowed"),
    (["x", "--cache", "lru"], "'lru'; known: naive, radix"),
    (["x", "--model", "tinny"], "unknown model 'tinny'; allowed: 'smollm2', 'tiny'"),
    (["x", "--model", "Qwen/Qwen3-0.6B"], "--allow-download"),
    (["x", "--model", "no/such.gguf"], "no/such.gguf: there is no such GGUF file"),
    (["x", "--backend", "magic"], "'magic'"),
    (["x", "--device", "tpu"], "tpu"),
    (["x", "--dtype", "int8"], "invalid choice: 'int8'"),
    (["x", "--chat"], "no chat template"),
    (["x", "--trace", "/no/such/folder/t.json"], "/no/such/folder/t.json"),
    ([""], "the prompt is empty"),
    (["y" * 600], "the prompt has 600 tokens; at most 511 fit"),
    (["y" * 40, "--num-pages", "2"], "the prompt has 40 tokens; at most 31 fit"),
    (["1,258", "--ids"], "token id 258 is outside the vocabulary"),
    (["1,-1", "--ids"], "token id -1 is outside the vocabulary"),
    (["1,two", "--ids"], "'1,two' is no list of token ids"),
    (["", ""], "no prompt could be run; the first: the prompt is empty"),
    ([], "required: PROMPT"),
    (["x", "--colour"], "unrecognized arguments: --colour"),
]


@pytest.mark.parametrize(("args", "message"), BAD, ids=[message for _, message in BAD])
def test_bad_input_is_one_line_and_exit_code_2(
    generate: Run, args: list[str], message: str
) -> None:
    ran = generate(*args)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.startswith("minisgl-lite") and ran.err.count("\n") == 1
    if len(args) < 2 or args[1] != "":
        assert ran.out == ""


def test_options_are_checked_before_the_model_is_read(generate: Run) -> None:
    ran = generate("x", "--max-tokens", "0", "--model", "no/such.gguf")
    assert ran.code == 2 and "max_tokens 0" in ran.err


def test_chat_is_the_default_where_a_template_is(
    generate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = "{{ messages[0]['role'] }}: {{ messages[0]['content'] }}"
    monkeypatch.setattr(ByteTokenizer, "chat_template", template)
    chat, raw = expected("user: ab", "ab", tokens=6)
    for args, text in (((), chat), (("--chat",), chat), (("--raw",), raw)):
        assert generate("ab", "--max-tokens", "6", *args).out.splitlines()[0] == text
    assert "the prompt is empty" in generate("", "--chat").err


def test_foreign_and_truncated_files_are_one_line(generate: Run, tmp_path: Path) -> None:
    from minisgl_lite.models.gguf import find_smollm2

    foreign = tmp_path / "foreign.gguf"
    foreign.write_bytes(b"\x7fELF" + bytes(100))
    cut = tmp_path / "cut.gguf"
    with find_smollm2().open("rb") as file:
        cut.write_bytes(file.read(1_000_000))
    for path, message in ((foreign, "b'\\x7fELF'"), (cut, "truncated")):
        ran = generate("x", "--model", str(path))
        assert ran.code == 2 and ran.err.count("\n") == 1
        assert str(path) in ran.err and message in ran.err


def test_a_bad_prompt_among_good_ones_stops_none(generate: Run) -> None:
    ran = generate("one", "", "y" * 600, "\udcff", "two", "--max-tokens", "6")
    good = expected("one", "two", tokens=6)
    lines = ran.out.splitlines()
    assert ran.code == 1 and ran.err == ""
    assert lines[1] == good[0] and lines[9] == good[1]
    assert lines[3].startswith("error: the prompt is empty")
    assert lines[5].startswith("error: the prompt has 600 tokens")
    assert lines[7].startswith("error: character 0 of the text, U+DCFF")
    assert ran.counts[0] == 12


def test_what_the_sanitizer_finds_is_an_error(
    generate: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minisgl_lite.trace import KVSanitizer

    class Finds(Listener):
        def __init__(self, llm: LLM) -> None:
            llm.hooks.attach(self)

        def on_turn_end(self, turn: int) -> None:
            raise HookError("request 0 reads slot 3")

    monkeypatch.setattr("minisgl_lite.trace.KVSanitizer", Finds)
    assert KVSanitizer is not Finds
    ran = generate("x", "--check")
    assert ran.code == 2 and "request 0 reads slot 3" in ran.err


def test_ctrl_c_ends_with_130(generate: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: LLM) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(LLM, "run_turn", interrupted)
    ran = generate("x")
    assert ran.code == 130 and "interrupted" in ran.err


@pytest.fixture
def bare_folder(tmp_path: Path) -> str:
    """A model of 99 tokens with no tokenizer."""
    return str(write_folder(tmp_path / "bare", BASE))


def test_ids_need_no_tokenizer(generate: Run, bare_folder: str, tmp_path: Path) -> None:
    from minisgl_lite.trace import Trace

    with LLM(bare_folder) as llm:
        params = SamplingParams(max_tokens=5, ignore_eos=True)
        want = [result["token_ids"] for result in llm.generate([[5, 6, 7], [8]], params)]
    args = ("5,6,7", "8", "--ids", "--model", bare_folder, "--max-tokens", "5", "--ignore-eos")
    trace = tmp_path / "run.json"
    ran = generate(*args, "--trace", str(trace), "--check")
    assert ran.code == 0 and ran.err == ""
    lines = ran.out.splitlines()
    assert [lines[1], lines[3]] == [",".join(map(str, ids)) for ids in want]
    assert Trace.load(trace).vocab == {}
    again = generate(f"5,6,7,{lines[1]}", *args[2:])  # what is printed can be given back
    assert again.code == 0


def test_words_need_one(generate: Run, bare_folder: str) -> None:
    ran = generate("words", "--model", bare_folder)
    assert ran.code == 2 and ran.err.count("\n") == 1 and "tokenizer" in ran.err


@pytest.mark.parametrize("overlap", [(), ("--overlap",)], ids=["normal", "overlap"])
def test_ctrl_c_keeps_the_trace_so_far(
    generate: Run, overlap: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minisgl_lite.trace import Trace

    turns, run_turn = 0, LLM.run_turn

    def interrupted(self: LLM) -> None:
        nonlocal turns
        turns += 1
        if turns == 5:
            raise KeyboardInterrupt
        run_turn(self)

    monkeypatch.setattr(LLM, "run_turn", interrupted)
    path = tmp_path / "run.json.gz"
    ran = generate("abc", "de", "--max-tokens", "40", "--trace", str(path), *overlap)
    assert ran.code == 130 and "interrupted" in ran.err
    trace = Trace.load(path)
    assert trace.find("token:r0:2") > 0
    assert "abort" in {frame["phase"] for frame in trace.frames}  # the rest was cancelled
    assert trace.state_at(len(trace) - 1).live() == []


def test_a_fault_keeps_the_trace_with_the_fault_in_it(
    generate: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minisgl_lite.attention import TorchAttnBackend
    from minisgl_lite.trace import Trace

    monkeypatch.setattr(TorchAttnBackend, "store", staticmethod(lambda *args: None))
    path = tmp_path / "run.json"
    ran = generate("abc", "--trace", str(path), "--check")
    assert ran.code == 2 and "stored nothing" in ran.err
    assert Trace.load(path).find("fault") > 0


UNWRITABLE = ["/proc/no.json", "/no/such/folder/t.json", "/", "a\0b.json", "x" * 300 + ".json"]


@pytest.mark.parametrize("path", UNWRITABLE, ids=["refused", "missing", "folder", "nul", "long"])
def test_a_trace_that_can_not_be_written_is_refused_before_anything_runs(
    generate: Run, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*args: object, **kwargs: object) -> None:
        raise AssertionError("the model was opened")

    monkeypatch.setattr("minisgl_lite.cli.generate.LLM", opened)
    ran = generate("x", "--trace", path)
    assert ran.code == 2 and ran.out == "" and ran.err.count("\n") == 1
    assert "error: --trace " in ran.err and "\0" not in ran.err


def test_asking_whether_a_file_can_be_written_leaves_it_as_it_is(tmp_path: Path) -> None:
    from minisgl_lite.cli.files import check_place

    old, new, link = tmp_path / "old", tmp_path / "new", tmp_path / "link"
    old.write_text("kept")
    link.symlink_to(tmp_path / "nowhere")
    for path in (old, new, link, Path("/dev/null")):
        check_place("--trace", path)
    assert old.read_text() == "kept" and not new.exists() and link.is_symlink()
