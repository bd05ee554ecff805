"""The command that archives Spark's classes, and the jobs that use the archive."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stateplan.runtime.spark.class_archive import archive_options
from stateplan.runtime.spark.tweaks import OFF
from tests.cli.class_logs import loaded_classes, logging_classes
from tests.support.waiting import until

JOB = """CREATE TABLE src (k INT) WITH ('connector' = 'datagen', 'number-of-rows' = '3');
CREATE TABLE snk (k INT, n BIGINT) WITH ('connector' = 'blackhole');
INSERT INTO snk SELECT k, COUNT(*) FROM src GROUP BY k"""


def stateplan(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stateplan", *words]
    return subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)


def classes_of_a_job(folder: Path, *options: str, **variables: str) -> tuple[int, int]:
    """How many classes a job's JVM takes from the archive, and from elsewhere."""
    log = folder / "classes.log"
    in_spark = "-Dtable.exec.local.max-input-size=0"
    done = stateplan("sql", "--no-config", logging_classes(log), in_spark, *options, "-e", JOB, **variables)
    assert done.returncode == 0, done.stderr
    assert "cds" not in done.stdout + done.stderr
    return loaded_classes(log)


# That a job takes its classes from the archive of `make setup` is shown by one that runs anyway, in test_jobs.py.
@pytest.mark.spark
@pytest.mark.long
def test_the_archive_is_made_and_made_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = stateplan("archive-classes", XDG_CACHE_HOME=str(tmp_path))
        assert done.returncode == 0, done.stderr
        (file,) = (tmp_path / "stateplan").iterdir()
        assert done.stdout.startswith(str(file))
        archived, others = classes_of_a_job(tmp_path, XDG_CACHE_HOME=str(tmp_path))
        assert archived > others
    assert classes_of_a_job(tmp_path, f"-D{OFF}=class-archive", XDG_CACHE_HOME=str(tmp_path))[0] == 0
    file.chmod(0o600)
    file.write_bytes(file.read_bytes()[:100_000])
    assert classes_of_a_job(tmp_path, XDG_CACHE_HOME=str(tmp_path))[0] == 0


LATER = """
import os
from stateplan.runtime.spark.class_archive import archive_at_exit
print(archive_at_exit(os.environ))
"""


def test_the_first_start_tries_once_to_make_an_archive(tmp_path: Path) -> None:
    def answer(**variables: str) -> str:
        environment = {**os.environ, "JAVA_HOME": str(tmp_path / "no-java"), **variables}
        done = subprocess.run(
            [sys.executable, "-c", LATER], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    cache = tmp_path / "cache"
    assert [answer(XDG_CACHE_HOME=str(cache)) for _ in range(2)] == ["True", "False"]
    assert answer(XDG_CACHE_HOME=str(tmp_path / "a b")) == "False"
    (tmp_path / "file").touch()
    assert answer(XDG_CACHE_HOME=str(tmp_path / "file")) == "False"


@pytest.mark.spark
@pytest.mark.long
def test_the_end_of_the_first_job_makes_the_archive(tmp_path: Path) -> None:
    assert classes_of_a_job(tmp_path, XDG_CACHE_HOME=str(tmp_path))[0] == 0
    until(lambda: any((tmp_path / "stateplan").glob("*.jsa")), 300)
    archived, others = classes_of_a_job(tmp_path, XDG_CACHE_HOME=str(tmp_path))
    assert archived > others


def test_no_archive_can_be_written(tmp_path: Path) -> None:
    tmp_path.joinpath("file").touch()
    for place, problem in (("file", "Not a directory"), ("a b", "Spark passes no path with a space to its JVM")):
        done = stateplan("archive-classes", XDG_CACHE_HOME=str(tmp_path / place))
        assert done.returncode == 1
        assert "RUN017" in done.stderr and f"{tmp_path / place / 'stateplan'}: {problem}" in done.stderr, done.stderr
    assert not (tmp_path / "a b").exists()


def test_the_job_fails(tmp_path: Path) -> None:
    done = stateplan("archive-classes", XDG_CACHE_HOME=str(tmp_path / "cache"), JAVA_HOME=str(tmp_path))
    assert done.returncode == 1
    assert "RUN017" in done.stderr and "RUN010" in done.stderr, done.stderr
    assert list((tmp_path / "cache" / "stateplan").iterdir()) == []


def test_jobs_do_not_need_the_archive(tmp_path: Path) -> None:
    assert archive_options({**os.environ, "XDG_CACHE_HOME": str(tmp_path)}) == []
