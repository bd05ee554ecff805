"""Jobs on a Spark whose executors are processes of their own: the rows are those of a local run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.support.cluster_jobs import (
    MASTER,
    changes,
    compiled,
    finished,
    in_steps,
    kill_tree,
    one_job,
    record,
    run,
    started,
)

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_two_jobs_with_other_ttls_and_another_parallelism(spark: object, tmp_path: Path) -> None:
    """``spark`` keeps the local run in this process, and its settings those of the shared session."""
    there, here = tmp_path / "there", tmp_path / "here"
    finished(in_steps, there, MASTER)
    in_steps(str(here), "")
    for name in ("stats", "pairs"):
        assert changes(here, name), name
        assert changes(there, name) == changes(here, name)


def test_a_job_runs_on_executors(spark: object, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for place in (there, here):
        record(place, 0, 2)
        compiled(place)
    finished(one_job, there)
    run(here, "stats", {"parallelism.default": "2"}, "3 min")
    assert changes(here, "stats")
    assert changes(there, "stats") == changes(here, "stats")


def executors(process: subprocess.Popen[str]) -> list[psutil.Process]:
    """The executors of a driver."""
    found = []
    for below in psutil.Process(process.pid).children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any("CoarseGrainedExecutorBackend" in word for word in below.cmdline()):
                found.append(below)
    return found


def until(folder: Path, files: int, process: subprocess.Popen[str]) -> None:
    """Waits until a sink has so many files."""
    while len(list((folder / "stats").glob("part-*"))) < files:
        assert process.poll() is None, process.communicate()[0]
        time.sleep(0.05)


@pytest.mark.long
def test_an_executor_and_then_the_driver_are_killed(spark: object, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for place in (there, here):
        record(place, 0, 6)
        compiled(place)
    run(here, "stats", {"parallelism.default": "2"}, "3 min")
    job = started(one_job, there)
    until(there, 2, job)
    os.kill(executors(job)[0].pid, signal.SIGKILL)
    until(there, 4, job)
    kill_tree(job)
    assert changes(there, "stats") != changes(here, "stats")
    finished(one_job, there)
    assert changes(there, "stats") == changes(here, "stats")
