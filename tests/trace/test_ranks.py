"""Two tensor-parallel ranks, each recorded: the same frames but for the rank's own number."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minisgl_lite.trace import Trace

PROGRAM = """
import sys
from minisgl_lite import LLM, SamplingParams
from minisgl_lite.distributed import destroy_distributed, init_from_env
from minisgl_lite.trace import Recorder

ranks = init_from_env()
overlap = sys.argv[2] == "overlap"
with LLM("tiny", page_size=4, num_pages=12, tp_info=ranks, overlap=overlap) as llm:
    with Recorder(llm) as recorder:
        llm.generate(["abcdefghij", "abcdefgh!", "xyz"], SamplingParams(max_tokens=9))
    recorder.trace().save(f"{sys.argv[1]}/rank{ranks.rank}.json")
destroy_distributed()
"""


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["normal", "overlap"])
def test_both_ranks_record_the_same_frames(loop: str, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    ran = subprocess.run(
        [*launch, str(program), str(tmp_path), loop],
        capture_output=True,
        text=True,
        timeout=600,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    traces = [Trace.load(tmp_path / f"rank{rank}.json") for rank in (0, 1)]
    for rank, trace in enumerate(traces):
        assert {frame["rank"] for frame in trace.frames} == {rank}
    first, second = ([frame | {"rank": 0} for frame in trace.frames] for trace in traces)
    assert first == second and len(first) > 30
