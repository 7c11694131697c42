"""The Python side of the view: the module is put together, traits and messages are right."""

from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from minisgl_lite import viz
from minisgl_lite.text import CATALOGUE, say
from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder, Trace
from minisgl_lite.viz import assets, page_table_view, pool_view, show
from minisgl_lite.viz.picture import picture
from minisgl_lite.viz.sentences import token_text

from . import decisions
from .runs import FIXTURE, busy_run, fixture

pytest.importorskip("anywidget")

PACKAGE = Path(viz.__file__).parent.parent


@pytest.fixture(scope="module")
def trace() -> Trace:
    return busy_run()


# ---- assets ----------------------------------------------------------------------------------


def test_node_s_run_is_what_the_recorder_makes_today() -> None:
    assert FIXTURE.read_text(encoding="utf-8") == fixture(), (
        "the recorder or the replay changed: python -m tests.viz.runs"
    )


def test_node_s_decisions_are_what_the_engine_decides_today() -> None:
    assert decisions.FIXTURE.read_text(encoding="utf-8") == decisions.fixture(), (
        "the engine or the replay changed: python -m tests.viz.decisions"
    )


def test_the_module_is_one_text_without_local_imports() -> None:
    source = assets.module_source()
    assert not re.search(r"^import\b", source, re.MULTILINE)
    assert source.count("export default") == 1
    assert "useWords({" in source
    assert not re.search(r"^\s*//", source, re.MULTILINE)


def test_each_module_of_the_folder_is_in_it() -> None:
    source = assets.module_source()
    for path in assets.STATIC.glob("*.js"):
        names = re.findall(
            r"^export (?:async )?(?:function|const|class|let) (\w+)", path.read_text(), re.M
        )
        for name in names:
            assert re.search(rf"^(?:async )?(?:function|const|class|let) {name}\b", source, re.M), (
                f"{path.name}: {name} is not in the view"
            )


def test_the_packed_module_holds_the_readable_one() -> None:
    packed = re.search(r'atob\("([^"]+)"\)', assets.esm())
    assert packed
    assert zlib.decompress(base64.b64decode(packed[1])).decode() == assets.module_source()


def test_what_a_page_carries_is_small() -> None:
    # Of the 400 KB that a page with one view may weigh beyond its text.
    assert len(assets.esm()) + len(assets.css()) <= 120_000


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = assets.module_source() + assets.css()
    assert re.findall(r"https?://[^\s\"')]+", text) == ["http://www.w3.org/2000/svg"]
    assert "innerHTML" not in text


def test_a_name_that_two_modules_define_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"b\.js and static/a\.js both define twice"):
        assets.join_modules({"a.js": "const twice = 1;\n", "b.js": "export function twice() {}\n"})


def test_an_import_that_could_not_be_joined_is_an_error() -> None:
    with pytest.raises(ValueError, match="write imports as"):
        assets.join_modules({"a.js": 'import * as all from "./b.js";\n'})


def test_comments_go_and_text_that_looks_like_one_stays() -> None:
    source = '/** gone */\n// gone\nconst a = "of // two"; // gone too\n  // gone\n'
    assert assets.join_modules({"a.js": source}) == 'const a = "of // two";\n'
    kept = "f(`of // two`, 1); // it's kept\n"
    assert assets.join_modules({"a.js": kept}) == kept


# ---- words -----------------------------------------------------------------------------------


def test_every_key_that_the_views_name_is_in_the_catalogue() -> None:
    source = assets.module_source()
    for key in re.findall(r'say\(\s*"([^"]+)"', source):
        assert key in CATALOGUE, key
    for key in re.findall(r'count\(\s*"([^"]+)"', source):
        assert {f"{key}.one", f"{key}.many"} <= CATALOGUE.keys(), key


def test_every_word_of_the_catalogue_is_used() -> None:
    python = [*PACKAGE.glob("trace/*.py"), *PACKAGE.glob("viz/*.py")]
    files = [*assets.STATIC.glob("*.js"), *python]
    source = "\n".join(path.read_text(encoding="utf-8") for path in files)
    literals = set(re.findall(r'"([\w.]+)"', source))
    prefixes = {m for m in re.findall(r"`([\w.]+)\.\$\{", source)}
    # Python's: f"sanitizer.{verb}.free", f"sanitizer.writer{end}"
    made = re.findall(r'say\(\s*f"([^"]+)"', source)
    patterns = [re.sub(r"\\\{.*?\\\}", r"[\\w.]*", re.escape(text)) for text in made]
    for key in CATALOGUE:
        base = re.sub(r"\.(one|many)$", "", key)
        built = any(key.startswith(prefix + ".") for prefix in prefixes)
        built = built or any(re.fullmatch(pattern, key) for pattern in patterns)
        assert base in literals or key in literals or built, f"{key} is used nowhere"


def test_a_page_carries_no_words_that_only_python_says() -> None:
    source = assets.module_source()
    for key in CATALOGUE:
        assert (f'"{key}":' in source) != key.startswith(assets.PYTHON_WORDS), key
    scripts = "\n".join(path.read_text(encoding="utf-8") for path in assets.STATIC.glob("*.js"))
    assert not re.search(rf'"({"|".join(map(re.escape, assets.PYTHON_WORDS))})', scripts)


def test_words_are_filled_in_from_python_too() -> None:
    assert say("queue.count.many", n=3) == "3 free pages"
    with pytest.raises(KeyError):
        say("queue.count.many")


# ---- recorded runs ---------------------------------------------------------------------------


def test_the_trace_travels_whole_in_one_text_trait(trace: Trace) -> None:
    view = show(trace)
    assert Trace.from_widget(view.trace).digest() == trace.digest()
    synced = {name for name in view.traits(sync=True) if not name.startswith("_")}
    assert {"trace", "options"} <= synced
    assert json.loads(view.options)["id"]
    assert "live" not in json.loads(view.options)


def test_options_say_where_it_opens(trace: Trace) -> None:
    view = show(trace, panels=["pool", "tree"], start="split", title="Two of a kind", name="a")
    options = json.loads(view.options)
    assert options["panels"] == ["pool", "tree"]
    assert options["start"] == trace.find("split")
    assert (options["title"], options["name"]) == ("Two of a kind", "a")
    assert json.loads(show(trace, start=0).options)["start"] == 0


def test_two_views_do_not_share_an_id(trace: Trace) -> None:
    assert json.loads(show(trace).options)["id"] != json.loads(show(trace).options)["id"]


def test_small_forms_show_one_panel(trace: Trace) -> None:
    for view, panel in ((pool_view(trace), "pool"), (page_table_view(trace), "page_table")):
        options = json.loads(view.options)
        assert options["small"] is True
        assert options["panels"] == [panel]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"panels": ["pol"]}, "panels .* is not a list of: requests"),
        ({"panels": "pool"}, "panels 'pool' is not a list"),
        ({"start": "first-decode:r99"}, "does not happen in this trace"),
        ({"start": "no such"}, "event 'no such' is not one of"),
        ({"start": 10_000}, "start 10000 is not a frame of this run: 0 to"),
    ],
)
def test_what_cannot_be_shown_is_named(
    trace: Trace, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        show(trace, **arguments)


def test_only_runs_can_be_shown() -> None:
    with pytest.raises(ValueError, match=r"takes a Trace, an LLM .* not int"):
        show(3)


def test_the_package_and_viz_import_without_anywidget() -> None:
    code = (
        "import sys; sys.modules['anywidget'] = sys.modules['ipywidgets'] = None\n"
        "import minisgl_lite, minisgl_lite.viz as viz\n"
        "from minisgl_lite.trace import Trace\n"
        "try: viz.show(Trace({}, []))\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "minisgl-lite[book]" in done.stdout


# ---- without scripts -------------------------------------------------------------------------


def test_a_still_picture_stands_beside_the_view(trace: Trace) -> None:
    bundle, _ = show(trace, start="forward:r1")._repr_mimebundle_()
    still = bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
    assert "r1 writes slots 0–5 = out_loc[0:6] → page_table[3, 0:6]" in still
    assert len(re.findall(r"<rect", still)) == 20 + 6 + 2
    assert len(still) < 20_000


def test_an_engine_at_rest_says_what_it_would_be() -> None:
    bundle, _ = show(Toy(page_size=4, num_pages=8))._repr_mimebundle_()
    still = bundle["text/html"]
    assert "a running engine (toy: P = 4, 8 pages, radix cache)" in still
    assert "make lab starts JupyterLab" in still and still.count("<li>") == 3


def test_text_of_prompts_is_text_in_the_picture_too() -> None:
    toy = Toy(page_size=4, num_pages=8)
    with Recorder(toy) as recorder:
        toy.add("<script>x</script> 日本", says="<b>")
        toy.run()
    trace = recorder.trace()
    still = picture(trace, len(trace) - 1)
    assert "&lt;script&gt;x&lt;/script&gt; 日本 &lt;b&gt;" in still
    assert "<script" not in still


def test_a_large_pool_is_told_by_its_totals_and_an_empty_run_has_no_picture(trace: Trace) -> None:
    large = Trace(trace.meta | {"num_pages": 2048}, trace.frames[:3], trace.vocab)
    assert "free 4088 + tree 0 + in flight 8 = 4096 slots" in picture(large, 2)
    assert picture(Trace(trace.meta, [])) == ""


def test_tokens_are_made_visible() -> None:
    words = [
        b" cat",
        b"\n",
        b"\xe6",
        b"\xe2\x80\xae",
        b"\xcc\x81",
        b"<|im_end|>",
        b"abcdefghijklmnop",
    ]
    trace = Trace({"special": [5]}, [], dict(enumerate(words)))
    shown = [token_text(trace, token) for token in range(8)]
    assert shown[:3] == ["␣cat", "↵", "⟨E6⟩"]
    assert shown[3:] == ["⟨202E⟩", "◌\u0301", "◆<|im_end|>", "abcdefghijk…", "#7"]


# ---- live runs -------------------------------------------------------------------------------


class Wire:
    """A view with its answers caught on the way to the front end."""

    def __init__(self, run: Any) -> None:
        self.view = show(run)
        self.sent: list[dict[str, Any]] = []
        self.view.send = lambda content, buffers=None: self.sent.append(content)

    def ask(self, **message: Any) -> dict[str, Any]:
        number = len(self.sent)
        self.view._handle_custom_msg({"id": f"m{number}", **message}, [])
        assert len(self.sent) == number + 1
        assert json.loads(json.dumps(self.sent[-1])) == self.sent[-1], "not plain JSON"
        return self.sent[-1]


@pytest.fixture
def wire() -> Wire:
    return Wire(Toy(page_size=4, num_pages=8))


def test_a_live_view_says_so(wire: Wire) -> None:
    assert json.loads(wire.view.options)["live"] is True


def test_a_prompt_is_decoded_turn_by_turn(wire: Wire) -> None:
    added = wire.ask(op="add", prompt="a b c", max_tokens=2, temperature=0)
    assert (added["id"], added["error"], added["frames"], added["at"]) == ("m0", None, [], 0)
    first = wire.ask(op="step")
    assert first["at"] == 0
    assert [f["phase"] for f in first["frames"]][:2] == ["receive", "admit"]
    second = wire.ask(op="run")
    assert second["at"] == len(first["frames"])
    assert second["busy"] is False


def test_history_is_all_that_was_sent(wire: Wire) -> None:
    wire.ask(op="add", prompt="a b c", max_tokens=2)
    first = wire.ask(op="step")
    history = wire.ask(op="history")
    assert history["frames"] == first["frames"]
    assert history["vocab"] == first["vocab"]
    assert history["meta"]["page_size"] == 4


def test_when_nothing_is_left_the_notebook_keeps_the_run(wire: Wire) -> None:
    wire.ask(op="add", prompt="a b c", max_tokens=2)
    wire.ask(op="step")
    last = wire.ask(op="step")
    kept = Trace.from_widget(wire.view.trace)
    assert len(kept) == last["at"] + len(last["frames"])


def test_an_error_is_an_answer(wire: Wire) -> None:
    assert "not one of" in wire.ask(op="fly")["error"]
    assert wire.ask(op="add", prompt="", max_tokens=2)["error"]
    assert "page_size 0 is not allowed" in wire.ask(op="reset", page_size=0)["error"]


def test_a_driver_that_breaks_is_an_answer_too(trace: Trace) -> None:
    class Broken:
        def trace(self) -> Trace:
            return Trace(trace.meta, [])

        def command(self, command: dict[str, Any]) -> dict[str, Any]:
            raise OSError("the pipe is closed")

    assert Wire(Broken()).ask(op="step")["error"] == "OSError: the pipe is closed"


def test_messages_that_are_none_of_ours_are_left_alone(wire: Wire) -> None:
    for message in ({"kind": "anywidget-command"}, "text", None, {"op": 3}):
        wire.view._handle_custom_msg(message, [])
    assert wire.sent == []


def test_reset_begins_a_new_history(wire: Wire) -> None:
    wire.ask(op="add", prompt="5, 6, 7", max_tokens=2)
    wire.ask(op="step")
    answer = wire.ask(op="reset", page_size=2, num_pages=16)
    assert answer["error"] is None
    assert (answer["meta"]["page_size"], answer["at"]) == (2, 0)
    assert wire.ask(op="history")["frames"] == []
