"""A job whose processes are killed, with other TTLs in between, gives what a run in peace gives."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.chaos import Storm, effective, result, run_in_peace, schedule
from benchmarks.chaos_jobs import JOBS
from stateplan.runtime.checkpoint.live_ttl import read_ttls


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("name", list(JOBS))
def test_killed_while_ttls_change(spark: object, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "storm"
    folder.mkdir()
    job = replace(JOBS[name], chunk=12 if name == "examples" else 30)
    job.compile(folder)
    kinds = {"Python worker": 1, "commit": 1}
    storm = Storm(job, folder, 0, 2, 40, random.Random(4), kinds, edits=1.0, rescales=0.0, asks=1.0)
    storm.run()
    assert dict(storm.tally.kills) == kinds
    assert storm.tally.live >= 2
    held = run_in_peace(storm, tmp_path / "peace")
    asked = schedule(read_ttls(storm.checkpoint).values(), storm.instants)
    assert effective(held) == effective(asked)
    for sink in job.sinks:
        expected = result(tmp_path / "peace" / "out" / sink)
        assert expected
        assert result(folder / "out" / sink) == expected
