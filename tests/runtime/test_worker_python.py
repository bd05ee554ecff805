"""The program that Spark starts Python with, and the forks in which it plans stateful operators and sources."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from stateplan.runtime.spark import worker_daemon
from stateplan.runtime.spark import worker_python as programs
from stateplan.runtime.spark.fork_server import MODULES, NAMES
from stateplan.runtime.spark.tweak_settings import worker_variables
from stateplan.runtime.spark.worker_python import worker_python
from stateplan.session.environment import TableEnvironment
from tests.support.delta import append
from tests.support.waiting import until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROOT = Path(__file__).resolve().parents[2]
CLIENT = str(Path(programs.__file__).with_name("fork_client.py"))

TELLING = """
import json, os, sys
niceness = os.getpriority(os.PRIO_PROCESS, 0)
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("SAID"), niceness, os.getppid(), __name__]))
print("an error", file=sys.stderr)
sys.exit(7)
"""


def gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


@contextlib.contextmanager
def served(variables: Mapping[str, str] | None = None) -> Iterator[str]:
    """A program with a fork server that answers."""
    made = worker_python(str(ROOT))
    programs._serve(made, variables or {})
    try:
        until(lambda: programs._socket(Path(made)).exists(), 60)
        yield made
    finally:
        programs._end(programs._servers.pop(made), os.getpid())


@pytest.fixture(scope="module")
def program() -> Iterator[str]:
    """A program whose fork server outlives the test: to start one takes a second."""
    with served() as made:
        yield made


@contextlib.contextmanager
def unserved(program: str) -> Iterator[None]:
    """No fork server answers meanwhile."""
    path = programs._socket(Path(program))
    away = path.rename(path.with_name("away"))
    try:
        yield
    finally:
        away.rename(path)


def told(folder: Path, path: str) -> list[object]:
    """What the module ``telling`` says of its process."""
    (folder / "telling.py").write_text(TELLING)
    done = subprocess.run(
        ["nice", "-n", "3", sys.executable, "-IS", CLIENT, path, "-m", "telling", "a b", "ü"],
        cwd=folder, env={**os.environ, "SAID": "\udcff", "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stderr == "an error\n"
    assert done.returncode == 7
    return list(json.loads(done.stdout))


def test_a_fork_is_like_a_process_of_its_own(program: str, tmp_path: Path) -> None:
    server = programs._servers[program].pid
    path = str(programs._socket(Path(program)))
    niceness = os.getpriority(os.PRIO_PROCESS, 0) + 3
    assert told(tmp_path, path) == [["a b", "ü"], str(tmp_path), "\udcff", niceness, server, "__main__"]
    *rest, parent, name = told(tmp_path, path + "-of-nobody")
    assert [*rest, name] == [["a b", "ü"], str(tmp_path), "\udcff", niceness, "__main__"]
    assert parent == os.getpid()


@pytest.mark.parametrize(("missing", "named"), [([], "this"), (["no_such_module"], "tabnanny")])
def test_a_fork_has_what_is_named_for_it(program: str, tmp_path: Path, missing: list[str], named: str) -> None:
    (tmp_path / "having.py").write_text(f"import sys; print({named!r} in sys.modules)")

    def has() -> str:
        command = [sys.executable, "-IS", CLIENT, str(programs._socket(Path(program))), "-m", "having"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout

    assert has() == "False\n"
    programs.import_ahead(program, [*missing, named])
    until(lambda: has() == "True\n", 60)


def test_libraries_of_forks_see_the_variables_of_workers_when_they_are_imported(tmp_path: Path) -> None:
    (tmp_path / "asking.py").write_text("import polars; print(polars.thread_pool_size())")
    with served({"POLARS_MAX_THREADS": "3"}) as program:
        programs.import_ahead(program, ["polars"])
        command = [sys.executable, "-IS", CLIENT, str(programs._socket(Path(program))), "-m", "asking"]
        environment = {name: value for name, value in os.environ.items() if name != "POLARS_MAX_THREADS"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def test_a_spark_gives_forks_the_variables_that_the_user_sets() -> None:
    settings = {"spark.executorEnv.POLARS_MAX_THREADS": "3", "spark.executorEnv.A": "b", "spark.app.name": "x"}
    assert worker_variables(settings) == {"POLARS_MAX_THREADS": "3", "A": "b"}


def test_a_server_that_was_killed_is_not_missed(tmp_path: Path) -> None:
    with served() as program:
        path = programs._socket(Path(program))
        server = programs._servers[program]
        server.kill()
        server.wait()
        assert path.exists()
        programs.import_ahead(program, ["json"])
        assert os.getpid() in told(tmp_path, str(path))


def test_the_program_is_this_python(program: str) -> None:
    code = "import sys, pyspark; print(sys.executable, pyspark.__file__)"
    done = subprocess.run([program, "-c", code], capture_output=True, text=True, check=True)
    import pyspark

    assert done.stdout.split() == [sys.executable, pyspark.__file__]


def test_the_daemon_of_workers_ends_with_its_standard_input(program: str) -> None:
    """Also where no fork server answers."""

    def run() -> tuple[int, int]:
        done = subprocess.run(
            [program, "-m", worker_daemon.MODULE, "pyspark.worker"], input=b"", capture_output=True, check=False
        )
        return done.returncode, int.from_bytes(done.stdout, "big")

    forked = run()
    with unserved(program):
        alone = run()
    assert forked[0] == alone[0]
    assert all(0 < port < 1 << 16 for _, port in (forked, alone))


@pytest.mark.parametrize("module", [module for module in MODULES if module != worker_daemon.MODULE])
def test_a_fork_fails_as_a_process_does(program: str, module: str) -> None:
    """Outside of Spark a module does not find the socket of the JVM."""

    def run() -> tuple[int, str]:
        done = subprocess.run([program, "-m", module], capture_output=True, text=True, check=False)
        return done.returncode, done.stderr.splitlines()[-1]

    forked = run()
    with unserved(program):
        assert forked == run() and forked[0] == 1


def test_a_fork_ends_with_the_process_that_spark_knows(program: str, tmp_path: Path) -> None:
    """Spark ends what it has started with a signal, also where a source waits for its servers."""
    (tmp_path / "waiting.py").write_text("import os, time; print(os.getpid(), flush=True); time.sleep(600)")
    command = [sys.executable, "-IS", CLIENT, str(programs._socket(Path(program))), "-m", "waiting"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        fork = int(client.stdout.readline())
        assert fork != client.pid and not gone(fork)
        client.terminate()
    until(lambda: gone(fork), 60)


def test_the_server_ends_with_a_driver_that_is_killed() -> None:
    code = f"""
import time
from pathlib import Path
from stateplan.runtime.spark import worker_python as programs
made = programs.worker_python({str(ROOT)!r})
programs._serve(made)
while not programs._socket(Path(made)).exists():
    time.sleep(0.02)
print(programs._servers[made].pid, flush=True)
time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        server = int(driver.stdout.readline())
        driver.send_signal(signal.SIGKILL)

    until(lambda: gone(server), 60)


class Between:
    """Stands at the socket of a fork server, and counts what it passes on."""

    def __init__(self, path: Path) -> None:
        self.asked = 0
        self._real = path.with_name("real")
        path.rename(self._real)
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._server.accept()
            except OSError:  # it is shut down
                return
            size, streams, _, _ = socket.recv_fds(client, 4, 3)
            with socket.socket(socket.AF_UNIX) as real, client:
                real.connect(str(self._real))
                socket.send_fds(real, [size], streams)
                length = int.from_bytes(size, "little")
                while length > 0:
                    part = client.recv(length)
                    length -= len(part)
                    real.sendall(part)
                for stream in streams:
                    os.close(stream)
                self.asked += 1
                status = real.recv(1)
                with contextlib.suppress(OSError):  # Spark may have ended the client, which it needs no more
                    client.sendall(status)

    def close(self) -> None:
        self._real.rename(self._real.with_name("forks"))
        self._server.shutdown(socket.SHUT_RDWR)  # to close it would not wake the thread
        self._thread.join(30)
        self._server.close()


@pytest.mark.spark
def test_workers_are_forked_with_their_imports(spark: SparkSession) -> None:
    """And each draws random numbers of its own."""

    def of_worker(_: int) -> tuple[list[str], str, bool, float]:
        import numpy
        import psutil

        daemon = psutil.Process(os.getppid())
        loaded = any("polars" in part.path for part in daemon.memory_maps())
        return daemon.cmdline()[1:], daemon.name(), loaded, numpy.random.random()

    one, other = spark.sparkContext.parallelize([0, 1], 2).map(of_worker).collect()
    for command, name, loaded, _ in (one, other):
        assert "fork_server" in command[1] and name == NAMES[worker_daemon.MODULE] and loaded
    assert one[3] != other[3]


@pytest.mark.spark
def test_spark_plans_each_level_of_state_in_a_fork(spark: SparkSession, tmp_path: Path) -> None:
    def run(name: str) -> str:
        environment = TableEnvironment.create({"parallelism.default": "1", "table.exec.local.max-input-size": "0"})
        environment.execute_sql("CREATE TABLE src (k INT, v INT) WITH ('connector'='datagen', 'number-of-rows'='10')")
        environment.execute_sql(f"""CREATE TABLE snk (n BIGINT, c BIGINT) WITH ('connector'='filesystem',
            'path'='{tmp_path / name}', 'format'='debezium-json')""")
        environment.execute_sql("""INSERT INTO snk
            SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM src GROUP BY k) GROUP BY n""").wait()
        return "".join(sorted(file.read_text() for file in (tmp_path / name).glob("*.json")))

    assert run("first")
    path = programs._socket(Path(spark.sparkContext.pythonExec))
    until(path.exists, 60)
    between = Between(path)
    try:
        assert run("second")
        until(lambda: between.asked == 2, 60)
    finally:
        between.close()


@pytest.mark.spark
def test_spark_plans_a_source_in_a_fork(spark: SparkSession, tmp_path: Path) -> None:
    def run(name: str) -> list[str]:
        """A stateless job over a source that plans in Python."""
        append(tmp_path / "rows", (1, "a"), (2, "b"))
        environment = TableEnvironment.create({"parallelism.default": "1", "table.exec.local.max-input-size": "0"})
        environment.execute_sql(f"""CREATE TABLE src (k BIGINT, v STRING)
            WITH ('connector'='delta', 'table-path'='{tmp_path / "rows"}', 'mode'='batch')""")
        environment.execute_sql(f"""CREATE TABLE snk (k BIGINT) WITH ('connector'='filesystem',
            'path'='{tmp_path / name}', 'format'='json')""")
        environment.execute_sql("INSERT INTO snk SELECT k FROM src").wait()
        return sorted(line for file in (tmp_path / name).glob("*.json") for line in file.read_text().splitlines())

    assert len(run("first")) == 2
    path = programs._socket(Path(spark.sparkContext.pythonExec))
    until(path.exists, 60)
    between = Between(path)
    try:
        assert len(run("second")) == 4
        assert between.asked == 1
    finally:
        between.close()
