"""Why must pages be allocated before out_loc is looked up?"""

from __future__ import annotations

from ..checks.exercise import Exercise, add

add(
    Exercise(
        name="order-of-lookup",
        kind="explain",
        answer="order-of-lookup",
        objective="say why pages are allocated before out_loc is looked up, and what breaks if not",
        difficulty=2,
        minutes=12,
        points=4,
        page="write-locations",
        misconceptions=("m03", "m09"),
        hints=(
            "out_loc is read out of the rows of page_table. Who writes into these cells, and when?",
            "What does a cell hold that nobody has written in this step? Think of a row that is"
            " used for the first time, and of one that had an owner before.",
            "Follow the K and V of a token whose slot was looked up too early: whose slot is that"
            " now, and who will read it?",
        ),
    )
)
