"""Pages of a throw-away book: two views, a text that moves them, a reference that they name."""

from __future__ import annotations

from tests.book.throwaway import Text

RUN = """
from minisgl_lite.toy import Toy
from minisgl_lite.trace import Recorder
from minisgl_lite.viz import show

toy = Toy(page_size=4, num_pages=8)
with Recorder(toy) as recorder:
    toy.add("the cat sat on", says="the mat .")
    toy.add("a dog ran", says="to the door")
    toy.run()
trace = recorder.trace()
"""
STORY = Text("""
At first {step}`each prompt takes a page <allocate:r1>`, then {step}`their slots <prepare:r1
panels=out_loc,page_table pin=3>` are looked up. In the other view {step}`r2 ends <finish:r2
view=second>`. {step}``Code like `out_loc` is code <first-decode:r1>``.
""")
FILLER = Text("\n\n".join(["Text between the phrases and the second view."] * 40))
REFERENCE = Text("""
```{eval-rst}
.. py:method:: minisgl_lite.scheduler.Scheduler._prepare_batch

   Part of an API reference.
```
""")
PAGES = {
    "reference": [REFERENCE],
    "story": [
        RUN,
        STORY,
        "show(trace, start='start')",
        FILLER,
        "show(trace, name='second', start='start', panels=['pool'])",
    ],
}
