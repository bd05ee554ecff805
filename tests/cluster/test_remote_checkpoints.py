"""A checkpoint on a default file system that is not the local one: viewfs, through Hadoop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fsspec.implementations.local import LocalFileSystem

from stateplan.common.errors import CheckpointError
from stateplan.common.paths import RemotePath
from stateplan.runtime.checkpoint.locks import WRITERS, newest_lease, writer_lock
from tests.cluster.cluster_jobs import (
    ROOT,
    changes,
    compiled,
    finished,
    from_viewfs,
    on_viewfs,
    record,
    run,
    started,
    viewfs,
)

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_killed_edited_and_rescaled(spark: object, tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    for place in (there, here):
        record(place, 0, 5)
        compiled(place)
    job = started(on_viewfs, there, "first")
    checkpoint = RemotePath(LocalFileSystem(), str(there / "remote" / "stats"))
    while not newest_lease(checkpoint / WRITERS):
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.05)
    with pytest.raises(CheckpointError) as refused:  # as another job would be
        writer_lock(checkpoint)
    assert refused.value.code == "CKPT030"
    assert f"process {job.pid} on host" in refused.value.message
    while len(list((there / "stats").glob("part-*"))) < 3:
        assert job.poll() is None, job.communicate()[0]
        time.sleep(0.05)
    os.killpg(job.pid, signal.SIGKILL)
    job.communicate()
    for place in (there, here):
        record(place, 5, 7)
    finished(on_viewfs, there, "again", "edited")
    run(here, "stats", {"parallelism.default": "2"}, "4 min")
    for place in (there, here):
        record(place, 7, 8)
    finished(on_viewfs, there, "edited", "rescaled")
    run(here, "stats", {"parallelism.default": "2"}, "2 min")
    run(here, "stats", {"parallelism.default": "3"}, "4 min")
    assert changes(here, "stats")
    assert changes(there, "stats") == changes(here, "stats")
    assert not (there / "checkpoints").exists()
    assert {"plan.json", "stateplan.json", "ttl.json", "spark", "splits", "writers"} <= {
        p.name for p in (there / "remote" / "stats").iterdir()
    }
    options = [f"-D{key}={value}" for key, value in viewfs(there).items()]
    for command in (["job", "top", "--once"], ["state", "show"], ["state", "set-ttl"]):
        words = [*command, "viewfs://cluster/checkpoints/stats", *options]
        words += ["deduplicate=1 min"] if command[-1] == "set-ttl" else []
        done = subprocess.run([sys.executable, "-m", "stateplan", *words], capture_output=True, text=True, cwd=ROOT)
        assert done.returncode == 0, done.stderr
        assert "deduplicate" in done.stdout, done.stdout


def test_a_scheme_that_spark_does_not_know(spark: object, tmp_path: Path) -> None:
    record(tmp_path, 0, 1)
    compiled(tmp_path)
    with pytest.raises(CheckpointError) as error:
        run(tmp_path, "stats", {"execution.checkpointing.dir": "s3://bucket/checkpoint"})
    assert error.value.code == "CKPT006"
    assert "s3a:" in (error.value.hint or "")
    assert not changes(tmp_path, "stats")


def test_files_that_only_spark_reaches(spark: object, tmp_path: Path) -> None:
    said = finished(from_viewfs, tmp_path).splitlines()
    size = (tmp_path / "remote" / "in" / "table.parquet").stat().st_size
    zipped = (tmp_path / "remote" / "in" / "json" / "b.json.gz").stat().st_size
    assert said[0:2] == ["+I[1, a.json, 20]", "+I[2, a.json, 20]"]
    assert said[2] == f"+I[3, b.json.gz, {zipped}]"
    assert said[3:5] == [f"+I[7, table.parquet, {size}]", f"+I[8, table.parquet, {size}]"]
    assert said[5] == "OPT040 None"
    assert said[6] == "DATA111 viewfs://cluster/checkpoints/in/damaged.json"
    assert said[7] == "DATA107 install the package pyarrow (and Hadoop's native library libhdfs)"
