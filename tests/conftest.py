"""Fixtures shared by all tests: hypothesis profiles, the reference material, the Spark session."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if "tests" not in sys.modules:  # conftest.py itself is not in the package, until a test imports it
    pytest.register_assert_rewrite("tests")  # asserts in modules that tests share say what differs, too

from tests.support.command import Command, command
from tests.support.long_runs import LONG, is_left_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stateplan.runtime.job import Job
    from tests.support.kafka import Kafka
    from tests.support.postgres import Database, Postgres

ROOT = Path(__file__).resolve().parent.parent

_EXAMPLES = 100 if LONG else 15
settings.register_profile("dev", max_examples=_EXAMPLES, deadline=None)
settings.register_profile("ci", max_examples=_EXAMPLES, deadline=None, derandomize=True, print_blob=True)
settings.register_profile("thorough", max_examples=2000, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") == "true" else "dev"))


MEMORY = Path("/dev/shm")
"""A folder whose files are in memory. Tests overwrite, sync and delete files all the time, which takes a disk
milliseconds each time."""
_PREFIX = "stateplan-tests-"


def pytest_configure() -> None:
    _make_java_cheap()
    _use_memory()


def _make_java_cheap() -> None:
    """JVMs of tests live for seconds. The optimizing compiler, which those of endless jobs have, would take a third of
    their processor time. And processes that tests give another home find the archive of Spark's classes of this user.
    Without it, each JVM takes 5 s more, and the first one that ends starts a job that makes another archive."""
    os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m")
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))


def _use_memory() -> None:
    """Temporary files are in memory where it has room for them, unless ``TMPDIR`` says where they are to be. The
    processes of xdist, and all others that tests start, use the folder of the process that started them."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK):
        return
    for folder in MEMORY.glob(f"{_PREFIX}*"):
        if not Path("/proc", folder.name.removeprefix(_PREFIX)).exists():
            shutil.rmtree(folder, ignore_errors=True)
    room = os.statvfs(MEMORY)
    if room.f_bavail * room.f_frsize < 6 << 30 or room.f_flag & os.ST_NOEXEC:
        return
    folder = MEMORY / f"{_PREFIX}{os.getpid()}"
    folder.mkdir()
    atexit.register(_remove_files, folder, os.getpid())
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.testsfailed:  # their files stay until the next run
        atexit.unregister(_remove_files)


def _remove_files(folder: Path, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def shared_folder() -> Path | None:
    """The folder with Flink's facts and cases: ``STATEPLAN_SHARED``, else ``../shared/flink``, or None."""
    folder = Path(os.environ.get("STATEPLAN_SHARED") or ROOT.parent / "shared" / "flink")
    return folder if folder.is_dir() else None


SLOW_FILES = (
    "cluster/test_local_cluster.py",
    "cluster/test_hosts.py",
    "packages/test_ledger.py",
    "cluster/test_remote_checkpoints.py",
    "e2e/test_chaos.py",
    "connectors/test_object_store_kills.py",
    "e2e/test_jdbc_kills.py",
    "e2e/test_delta_kills.py",
    "docs/test_readme.py",
    "cluster/test_guests.py",
    "docs/test_tutorial.py",
    "docs/test_tutorial_stream.py",
    "e2e/test_rescaled.py",
    "cli/sql_client/test_terminal.py",
    "gateway/test_recovery.py",
    "e2e/test_like_postgres.py",
    "runtime/test_tweaks.py",
    "test_architecture.py",
)
"""They run first, so that no test process is left with one of them at the end."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    ranks = {ROOT / "tests" / name: rank for rank, name in enumerate(SLOW_FILES)}
    items.sort(key=lambda item: ranks.get(item.path, len(ranks)))
    for item in items:
        if item.get_closest_marker("long"):
            skipped = pytest.mark.skip(reason="takes minutes: STATEPLAN_LONG=1 runs it")
            item.add_marker(pytest.mark.timeout(0) if LONG else skipped)
        elif isinstance(item, pytest.Function) and item.get_closest_marker("halved") and is_left_out(item):
            item.add_marker(pytest.mark.skip(reason="is like others: STATEPLAN_LONG=1 runs it"))


def pytest_collection_finish() -> None:
    """Garbage collections skip the thousands of collected tests, and are rarer: each full one took 0.1 s and more."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 20, 20)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The reference material (see :func:`shared_folder`). Its absence skips the test, and fails it where
    ``CI=true``, unless ``STATEPLAN_SHARED=none`` says that it is meant to be absent."""
    folder = shared_folder()
    if folder is not None:
        return folder
    reason = "no reference material: set STATEPLAN_SHARED to its folder"
    if os.environ.get("CI") == "true" and os.environ.get("STATEPLAN_SHARED") != "none":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture
def stateplan(capfd: pytest.CaptureFixture[str]) -> Command:
    """The command line in this process."""
    return command(capfd)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one Spark session of the test run. Tests that use it carry ``@pytest.mark.spark``."""
    from stateplan.runtime.spark.session import spark_of

    running = spark_of({})
    yield running
    running.stop()


@pytest.fixture(autouse=True)
def inserts_in_spark(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of Spark run there what a session would run in its own process: jobs that write little input to tables, and
    those over unbounded tables."""
    if request.node.get_closest_marker("spark"):
        from stateplan.runtime.local import eligibility
        from stateplan.session.starter import JobStarter

        monkeypatch.setattr(eligibility, "_may_stream", lambda *_: False)

        start_here = JobStarter._start_here

        def start(self: Any, *args: Any, is_query: bool) -> Job | None:
            return start_here(self, *args, is_query=is_query) if is_query else None

        monkeypatch.setattr(JobStarter, "_start_here", start)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """The PostgreSQL server of this test process."""
    from tests.support.postgres import running

    with running() as server:
        yield server


@pytest.fixture
def database(postgres: Postgres) -> Database:
    """A PostgreSQL database of the test's own, empty."""
    return postgres.database()


@pytest.fixture(scope="session")
def kafka() -> Iterator[Kafka]:
    """The Kafka broker of this test process."""
    from tests.support.kafka import running

    with running() as broker:
        yield broker
