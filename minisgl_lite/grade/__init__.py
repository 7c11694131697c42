"""Grades a class: nbgrader does the bookkeeping, the harness gives the verdicts (extra ``grade``).

Each submission is one job in a process of its own (``job.py``): a private course folder, the
notebook in a sandboxed kernel (``sandbox.py``) that imports a package without answers
(``distribution.py``), and a judge on this side of the walls (``judging.py``).
"""
