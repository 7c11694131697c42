"""A course folder as nbgrader has it: its source, its gradebook, and what is done to a submission.

nbgrader's own converters clean, execute and give feedback. Two of its steps are exchanged: the
kernel is the sandbox's, and a score is what the judge recorded, never what a cell printed.
"""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..teaching.checks.exercise import Verdict
from ..teaching.release import Numbers, public_numbers, put_numbers
from ..utils import require
from .judging import Record
from .places import without_places

ASSIGNMENT = "assignment"
STUDENT = "student"
"""The neutral id under which each submission is graded."""
NOT_THERE = "its notebook is missing or can't be read"
OUTPUT_BYTES = 2**20
"""What is kept of all that a notebook's cells write."""
MESSAGE_BYTES = 2**25
"""Of one message of a kernel's; one that is longer ends the connection."""


class Graded(NamedTuple):
    """A cell's score as the gradebook has it; None: to be given by hand, or unknown."""

    score: float | None
    max_score: float
    manual: bool
    reason: str


class BrokeOff(Exception):
    """A notebook that can't be executed any further; the message says why."""


class Course:
    """nbgrader's folder for one assignment at ``root``.

    ``broke_off``: why a notebook was not executed to its end, by its name. ``late``: the time was
    up before the end. ``flags``: what a grader should look at.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.flags: list[str] = []
        self.broke_off: dict[str, str] = {}
        self.late = False
        self._reasons: dict[str, str] = {}

    # ---- made once ---------------------------------------------------------------------------
    @classmethod
    def create(
        cls, root: Path, sources: Sequence[Path], numbers: Numbers = public_numbers
    ) -> Course:
        """A course with these solution notebooks as its one assignment.

        ``numbers``: which numbers its questions were handed out with.

        Raises:
            ValueError: nbgrader can't release one of them.
        """
        nbformat: Any = require("nbformat", extra="grade")
        course = cls(root)
        source = root / "source" / ASSIGNMENT
        source.mkdir(parents=True)
        for path in sources:
            notebook = put_numbers(nbformat.read(path, as_version=4), numbers)
            nbformat.write(notebook, source / path.name)
        converters: Any = require("nbgrader.converters", extra="grade")
        config = course._config()
        config.GenerateAssignment.create_assignment = True
        course._convert(converters.GenerateAssignment, config)
        return course

    def copy_to(self, root: Path) -> Course:
        """A private copy: source, release and database, no submission."""
        shutil.copytree(self.root, root)
        return Course(root)

    def submitted(self, student: str) -> Path:
        return self.root / "submitted" / student / ASSIGNMENT

    def exercises(self) -> list[str]:
        """The exercises whose verdicts count here, in order."""
        with self._gradebook() as gradebook:
            names = [
                cell.name.rpartition("-")[0]
                for notebook in gradebook.find_assignment(ASSIGNMENT).notebooks
                for cell in notebook.grade_cells
                if cell.name.endswith("-check")
            ]
        return list(dict.fromkeys(names))

    def released(self) -> dict[str, Any]:
        """The handed-out notebooks by file name, with ids and metadata as they should come back."""
        nbformat: Any = require("nbformat", extra="grade")
        folder = self.root / "release" / ASSIGNMENT
        return {p.name: nbformat.read(p, as_version=4) for p in sorted(folder.glob("*.ipynb"))}

    def flag(self, text: str) -> None:
        if text not in self.flags:
            self.flags.append(text)

    # ---- done to a submission ----------------------------------------------------------------
    def autograde(
        self,
        record: Record,
        kernel: str,
        connection_file: Path,
        cell_seconds: int,
        seconds: float = float("inf"),
    ) -> None:
        """Clean, execute and score what lies in ``submitted``.

        After ``seconds`` no further cell is begun. A notebook that breaks off keeps the verdicts
        that were reached before.

        Raises:
            ValueError: nbgrader failed; the message has its reason.
        """
        converters: Any = require("nbgrader.converters", extra="grade")
        preprocessors: Any = require("nbgrader.preprocessors", extra="grade")
        reasons, course = self._reasons, self
        deadline = time.monotonic() + seconds

        class Execute(preprocessors.Execute):
            """In the sandbox's kernel; it keeps no more output than a person would read."""

            def preprocess(self, notebook: Any, resources: Any, **kwargs: Any) -> Any:
                connection_file.unlink(missing_ok=True)
                self.kernel_name = kernel
                self.cell_id, self.written = "", 0
                try:
                    notebook, resources = super().preprocess(notebook, resources, **kwargs)
                except Exception as error:  # nbclient's and jupyter_client's have no common class
                    name = resources["unique_key"]
                    course.broke_off[name] = _why(error, self.cell_id)
                for cell in notebook.cells:
                    _keep_what_is_shown(cell)
                notebook.metadata.update(METADATA)
                notebook.metadata.pop("widgets", None)
                return notebook, resources

            def create_kernel_manager(self) -> Any:
                manager = super().create_kernel_manager()
                manager.context.maxmsgsize = MESSAGE_BYTES  # of all sockets that it will make
                return manager

            def preprocess_cell(self, cell: Any, resources: Any, index: int) -> Any:
                left = deadline - time.monotonic()
                if left <= 0:
                    course.late = True
                    raise BrokeOff(f"the time was up before cell {cell.id}")
                self.cell_id = cell.id
                self.timeout = max(1, int(min(cell_seconds, left)))
                return super().preprocess_cell(cell, resources, index)

            def process_message(self, message: Any, cell: Any, index: int) -> Any:
                if message["msg_type"] != "status":
                    self.written += len(str(message["content"]))
                    if self.written > OUTPUT_BYTES:
                        course.flag(
                            f"the cells wrote more than {OUTPUT_BYTES // 2**20} MB; the rest was"
                            " dropped"
                        )
                        return None
                return super().process_message(message, cell, index)

        class SaveScores(preprocessors.SaveAutoGrades):
            """What the judge recorded; free text is left to people, as nbgrader does."""

            def preprocess(self, notebook: Any, resources: Any) -> Any:
                self.broke_off = course.broke_off.get(resources["unique_key"], "")
                return super().preprocess(notebook, resources)

            def _add_score(self, cell: Any, resources: Any) -> None:
                if cell.metadata.nbgrader.get("solution"):
                    super()._add_score(cell, resources)
                    return
                grade_id = cell.metadata.nbgrader["grade_id"]
                grade = self.gradebook.find_grade(
                    grade_id, self.notebook_id, self.assignment_id, self.student_id
                )
                verdict = record.verdicts.get(grade_id.rpartition("-")[0])
                points = float(cell.metadata.nbgrader["points"])
                grade.auto_score, reasons[grade_id] = score(points, verdict, self.broke_off)
                grade.needs_manual_grade = (
                    grade.manual_score is not None or grade.auto_score is None
                )
                self.gradebook.db.commit()

        config = self._config()
        # A machine that is busy must not make a row another one.
        config.Execute.iopub_timeout = 30
        config.Execute.startup_timeout = 120
        config.KernelManager.transport = "ipc"
        config.ConnectionFileMixin.connection_file = str(connection_file)
        config.KernelManager.connection_file = str(connection_file)
        config.OverwriteCells.add_missing_cells = True
        config.Autograde.autograde_preprocessors = [
            Execute,
            preprocessors.IgnorePattern,
            preprocessors.LimitOutput,
            SaveScores,
            preprocessors.AssignLatePenalties,
            preprocessors.CheckCellMetadata,
        ]
        self._convert(converters.Autograde, config)

    def grades(self, student: str) -> dict[str, Graded]:
        """Each graded cell's score, by grade_id. nbgrader's 0 for a notebook that it was not given
        is not known here."""
        there = {path.stem for path in self.submitted(student).glob("*.ipynb")}
        with self._gradebook() as gradebook:
            submission = gradebook.find_submission(ASSIGNMENT, student)
            found = {
                grade.name: Graded(None, grade.max_score, False, NOT_THERE)
                if notebook.name not in there
                else Graded(
                    grade.auto_score if grade.manual_score is None else grade.manual_score,
                    grade.max_score,
                    grade.needs_manual_grade and grade.name.endswith("-answer"),
                    self._reasons.get(grade.name, ""),
                )
                for notebook in submission.notebooks
                for grade in notebook.grades
            }
        return found

    def worth(self) -> dict[str, tuple[float, bool]]:
        """(points, by hand) of each graded cell, by grade_id."""
        with self._gradebook() as gradebook:
            return {
                cell.name: (cell.max_score, cell.name.endswith("-answer"))
                for notebook in gradebook.find_assignment(ASSIGNMENT).notebooks
                for cell in notebook.grade_cells
            }

    def executed(self, student: str) -> dict[str, str]:
        """The executed notebooks, safe to look at, by file name."""
        nbformat: Any = require("nbformat", extra="grade")
        folder = self.root / "autograded" / student / ASSIGNMENT
        return {
            path.name: nbformat.writes(harmless(nbformat.read(path, as_version=4)))
            for path in sorted(folder.glob("*.ipynb"))
        }

    # ---- nbgrader ------------------------------------------------------------------------------
    def _config(self) -> Any:
        traitlets: Any = require("traitlets.config", extra="grade")
        config = traitlets.Config()
        config.CourseDirectory.root = str(self.root)
        config.CourseDirectory.assignment_id = ASSIGNMENT
        config.CourseDirectory.db_url = self._db_url
        config.Application.log_level = 20
        return config

    @property
    def _db_url(self) -> str:
        return f"sqlite:///{self.root / 'gradebook.db'}"

    def _gradebook(self) -> Any:
        find_alembic()
        return require("nbgrader.api", extra="grade").Gradebook(self._db_url)

    def _convert(self, converter: Any, config: Any) -> None:
        directory: Any = require("nbgrader.coursedir", extra="grade").CourseDirectory
        base: Any = require("nbgrader.converters.base", extra="grade")
        find_alembic()
        made = converter(coursedir=directory(config=config), config=config)
        told = _LastError()
        made.log.addHandler(told)
        try:
            made.start()
        except base.NbGraderException as error:
            raise ValueError(f"nbgrader failed: {told.line or _line(error)}") from None
        finally:
            made.log.removeHandler(told)


class _LastError(logging.Handler):
    """The last line of the last traceback that nbgrader logged."""

    line = ""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage().strip()
        if text.startswith("Traceback"):
            self.line = without_places(text.splitlines()[-1])[:200]


METADATA = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
PICTURE = re.compile(r"[A-Za-z0-9+/=\s]*")
LINKS = (
    # A tag would run in the browser of whoever marks this; as text it can still be read. A link
    # might, too, and its address can be written in ways that only a browser understands.
    (re.compile(r"&(?=#|\w+;)"), "&amp;"),
    (re.compile(r"<(?=[A-Za-z/!?])"), "&lt;"),
    (re.compile(r"\](?=[(:])"), "] "),
    (re.compile(r"(?i)(javascript|vbscript|data)\s*:"), r"\1 :"),
    (re.compile(r"\\(?=(href|class|style|cssId|require|unicode)\b)"), ""),  # MathJax's
)
"""What becomes of Markdown."""


def harmless(notebook: Any) -> Any:
    """A stranger's notebook as a grader's browser may show it: text, and pictures that were drawn.

    It is made anew of what is known to be harmless. A kernel can send anything in place of a count,
    a name or a language, and some of it would be shown as markup or shown to nobody.
    """
    nbformat: Any = require("nbformat", extra="grade")
    cells = []
    for number, cell in enumerate(notebook.cells):
        made = nbformat.from_dict(
            {
                "cell_type": "code" if cell.cell_type == "code" else "markdown",
                "id": cell.id if re.fullmatch(r"[\w-]{1,64}", cell.id, re.A) else f"cell-{number}",
                "metadata": {k: v for k, v in cell.metadata.items() if k == "nbgrader"},
                "source": cell.source,
            }
        )
        if cell.cell_type == "code":
            made.execution_count = cell.get("execution_count")
            made.outputs = cell.get("outputs", [])
            _keep_what_is_shown(made)
        else:
            for pattern, instead in LINKS:
                made.source = pattern.sub(instead, made.source)
        cells.append(made)
    metadata = METADATA | {k: v for k, v in notebook.metadata.items() if k == "kernelspec"}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def _keep_what_is_shown(cell: Any) -> None:
    """Of a code cell's outputs; a count that is none goes, too."""
    if cell.cell_type == "code":
        nbformat: Any = require("nbformat", extra="grade")
        count = cell.get("execution_count")
        plain = isinstance(count, int) and not isinstance(count, bool)
        cell.execution_count = count if plain else None
        cell.outputs = [kept for output in cell.outputs for kept in _shown(nbformat, output)]


def _shown(nbformat: Any, output: Any) -> Iterator[Any]:
    """The output without all but text and pictures; nothing where nothing of it is left."""
    kind = output.get("output_type")
    if kind == "stream":
        name = "stderr" if output.get("name") == "stderr" else "stdout"
        yield nbformat.v4.new_output(kind, name=name, text=_text(output.get("text")))
    elif kind == "error":
        told = {name: _text(output.get(name)) for name in ("ename", "evalue")}
        lines = output.get("traceback")
        lines = [_text(line) for line in lines] if isinstance(lines, list) else []
        yield nbformat.v4.new_output(kind, traceback=lines, **told)
    elif kind in ("display_data", "execute_result"):
        data = output.get("data", {})
        kept = {"text/plain": _text(data["text/plain"])} if "text/plain" in data else {}
        picture = _text(data.get("image/png"))
        if picture and PICTURE.fullmatch(picture):
            kept["image/png"] = picture
        if kept:
            yield nbformat.v4.new_output("display_data", data=kept)


def _text(value: Any) -> str:
    text = "".join(map(str, value)) if isinstance(value, list) else str(value or "")
    return without_places(text)


def find_alembic() -> None:
    """nbgrader starts ``alembic`` by name; in an environment that isn't activated it finds none."""
    here = str(Path(sys.prefix) / "bin")
    if here not in os.environ.get("PATH", "").split(os.pathsep):
        os.environ["PATH"] = os.pathsep.join((here, os.environ.get("PATH", "")))


def score(points: float, verdict: Verdict | None, broke_off: str) -> tuple[float | None, str]:
    """What a check cell earns by the judge's last verdict on its exercise, and why."""
    if verdict is None:
        return (None, broke_off) if broke_off else (0.0, "its check was never asked")
    if verdict.status == "error":
        return None, verdict.text
    return (points if verdict.status == "done" else 0.0), verdict.text


def _why(error: Exception, cell_id: str) -> str:
    """Why a notebook was not executed to its end, in words."""
    if isinstance(error, BrokeOff):
        return str(error)
    if not cell_id:
        return f"the kernel did not start: {_line(error)}"
    if type(error).__name__ == "DeadKernelError":
        return f"the kernel died in cell {cell_id}"
    if type(error).__name__ == "CellTimeoutError":
        return f"cell {cell_id} could not be stopped"
    # Its words may be the student's, and what they were asked may stand in them.
    return f"the kernel broke off in cell {cell_id}: {type(error).__name__}"


def _line(error: Exception) -> str:
    return without_places(" ".join(str(error).split()))[:200] or type(error).__name__
