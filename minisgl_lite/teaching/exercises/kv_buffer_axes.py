"""What do the first four dimensions of the pool mean, and why is a layer still needed?"""

from __future__ import annotations

from ..checks.exercise import Exercise, add

add(
    Exercise(
        name="kv-buffer-axes",
        kind="explain",
        answer="kv-buffer-axes",
        objective="say what the pool's first four dimensions mean, and what a slot leaves open",
        difficulty=1,
        minutes=10,
        points=4,
        page="pool-dimensions",
        misconceptions=("m10",),
        hints=(
            "A slot number is an index into two of the four dimensions taken together. Which two?",
            "The other two are fixed by the question that is asked: K or V, and of which layer.",
            "Compare slot 9 in layer 0 with slot 9 in layer 1: do they hold the same numbers? Did"
            " anything in out_loc tell them apart?",
        ),
    )
)
