"""Servers that are not there, and a Spark that has died: each gives its code in time, and none is called a bug."""

from __future__ import annotations

import contextlib
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import IllegalArgumentException, PySparkRuntimeError

from stateplan import TableEnvironment
from stateplan.execnodes.errors import CheckpointError, DataError, RunError, StateplanError
from stateplan.execnodes.runtime.failures import known, told
from stateplan.execnodes.runtime.spark import hadoop, master
from stateplan.execnodes.runtime.spark.session import spark_of
from stateplan.execnodes.unreached import OTHER, REFUSED, SILENT, UNKNOWN, kind_of
from stateplan.gateway.client.http import connect

PLACES = ("unknown", "closed", "silent", "wrong")


def listening(answer: Callable[[socket.socket], None], stack: contextlib.ExitStack) -> str:
    """The address of a server on this machine that does this with each connection."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                answer(server.accept()[0])

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, str]]:
    """An address of each kind of server that is not reached."""
    kept: list[socket.socket] = []

    def wrong(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.sendall(b"220 mail.example.com ESMTP\r\n")
            connection.recv(4096)

    with contextlib.ExitStack() as stack:
        with socket.create_server(("127.0.0.1", 0)) as free:
            closed = f"127.0.0.1:{free.getsockname()[1]}"
        yield {
            "unknown": "nosuch.invalid:4711",
            "closed": closed,
            "silent": listening(kept.append, stack),
            "wrong": listening(wrong, stack),
        }
        for connection in kept:
            connection.close()


def failure_of(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as failure:
        return failure
    raise AssertionError("it does not fail")


@pytest.mark.parametrize(("place", "kind"), list(zip(PLACES, (UNKNOWN, REFUSED, SILENT, OTHER), strict=True)))
def test_kinds_of_what_python_raises(places: dict[str, str], place: str, kind: str) -> None:
    url = f"http://{places[place]}/"
    for call in (
        lambda: httpx.get(url, timeout=0.5, trust_env=False),
        lambda: urllib.request.urlopen(url, timeout=0.5),
    ):
        failure = failure_of(call)
        assert kind_of(failure) == kind, failure
        error = told(failure)
        assert error.code == "RUN094", error
        assert error.__cause__ is failure


JAVA = {
    "java.lang.IllegalArgumentException: java.net.UnknownHostException: nosuch.invalid": UNKNOWN,
    "java.net.ConnectException: Call From a/1.2.3.4 to b:8020 failed on connection exception": REFUSED,
    "java.net.SocketTimeoutException: 60000 millis timeout while waiting for channel to be ready": SILENT,
    "org.apache.hadoop.ipc.RpcException: RPC response has a length of 1213486160 exceeds maximum": OTHER,
    "java.io.EOFException: End of File Exception between local host is: a": OTHER,
}


@pytest.mark.parametrize("text", JAVA)
@pytest.mark.parametrize("made", [IllegalArgumentException, Py4JError, PySparkRuntimeError])
def test_kinds_of_what_java_says(made: type[Exception], text: str) -> None:
    failure = made(text)
    assert kind_of(failure) == JAVA[text]
    assert told(failure).code == "RUN094"


def test_what_is_of_a_library_is_no_bug_and_what_is_ours_is() -> None:
    class StoreError(Exception):
        pass

    StoreError.__module__ = "somestore.client"
    codes = {
        "RUN095": [StoreError("the bucket is odd")],
        "RUN095.spark": [IllegalArgumentException("odd"), Py4JError("odd")],
        "RUN096": [MemoryError(), Py4JError("java.lang.OutOfMemoryError: Java heap space")],
        "RUN094": [ssl.SSLError("CERTIFICATE_VERIFY_FAILED"), ConnectionResetError(104, "Connection reset by peer")],
        "RUN031": [OSError(28, "No space left on device")],
        "BUG000": [ZeroDivisionError("x"), KeyError("x"), AssertionError(), ValueError("timed out")],
    }
    for code, failures in codes.items():
        for failure in failures:
            assert told(failure).code == code.partition(".")[0], failure
    assert "the library somestore failed: StoreError: the bucket is odd" in str(told(codes["RUN095"][0]))
    inner = DataError("DATA111", reason="x")
    outer = RuntimeError("outer")
    outer.__cause__ = inner
    assert told(outer) is inner
    assert known(Py4JError(f"at worker: {inner.encoded()}")).code == "DATA111"  # type: ignore[union-attr]


def test_a_spark_that_has_died_is_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    for failure in (
        Py4JNetworkError("An error occurred while trying to connect to the Java server"),
        Py4JError("An error occurred while calling o12.sql"),
        ConnectionRefusedError(111, "Connection refused"),
    ):
        error = told(failure)
        assert (error.code, error.message) == ("RUN019", "the process of Spark has ended (status -9)")
    assert told(ZeroDivisionError()).code == "BUG000"


def test_the_environment_may_name_a_server_of_spark_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_REMOTE", "sc://nosuch.invalid")
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(RunError, match="SPARK_REMOTE is sc:") as raised:
        spark_of({})
    assert (raised.value.code, raised.value.hint) == ("RUN012", "unset SPARK_REMOTE")


@pytest.mark.parametrize(("place", "why"), [("unknown", "has no address"), ("closed", "nothing listens there")])
@pytest.mark.parametrize("form", ["spark://{0}", "k8s://https://{0}", "spark://{0},{0}"])
def test_a_master_that_is_not_there(places: dict[str, str], place: str, why: str, form: str) -> None:
    began = time.monotonic()
    with pytest.raises(RunError, match=why) as raised:
        master.check_master(form.format(places[place]))
    assert raised.value.code == "RUN093"
    assert time.monotonic() - began < 5


def test_one_master_of_several_is_enough(places: dict[str, str]) -> None:
    master.check_master(f"spark://{places['closed']},{places['silent']}")
    master.check_master("yarn")


@pytest.mark.parametrize(("limit", "printed"), [("300 ms", ""), ("5 min", "All masters are unresponsive! Giving up.")])
def test_a_master_that_is_silent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: str, printed: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    log = tmp_path / "log"
    log.write_text(printed)
    began = time.monotonic()
    with (
        pytest.raises(RunError, match="it does not answer") as raised,
        master.watched("spark://a:1", {"slot.request.timeout": limit}, log),
    ):
        process.wait(60)
        raise Py4JNetworkError("Answer from Java side is empty")
    assert raised.value.code == "RUN093"
    assert time.monotonic() - began < 10


def test_a_file_system_that_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers = threading.Event()

    def status(path: Any) -> None:
        asked.append(path.toString())
        answers.wait(60)

    system, path = SimpleNamespace(getFileStatus=status), SimpleNamespace(toString=lambda: "hdfs://a/x")
    monkeypatch.setattr(hadoop, "_answered", set())
    monkeypatch.setattr(hadoop, "_PATIENCE", 0.2)
    with pytest.raises(CheckpointError, match="it does not answer") as raised:
        hadoop._require_answer("hdfs://a", system, path)
    assert raised.value.code == "CKPT052"
    answers.set()
    for _ in range(2):
        hadoop._require_answer("hdfs://a", system, path)
    assert len(asked) == 2  # the second answer counts for all that follow


TABLES = {
    "jdbc": (
        "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://{0}/db', 'table-name' = 't', "
        "'connection.max-retry-timeout' = '2 s')",
        ("RUN140", "RUN146"),
    ),
    "kafka": (
        "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = '{0}', 'topic' = 't', "
        "'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', "
        "'properties.default.api.timeout.ms' = '1500')",
        ("RUN110",),
    ),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("server", TABLES)
def test_servers_of_tables(places: dict[str, str], tmp_path: Path, server: str, place: str) -> None:
    statement, codes = TABLES[server]
    env = TableEnvironment.create()
    began = time.monotonic()
    with pytest.raises(StateplanError) as raised:
        env.execute_sql(statement.format(places[place], tmp_path))
        list(env.execute_sql("SELECT * FROM t").collect())
    assert raised.value.code in codes, raised.value
    assert time.monotonic() - began < 20


@pytest.mark.parametrize("place", PLACES)
def test_a_gateway(monkeypatch: pytest.MonkeyPatch, places: dict[str, str], place: str) -> None:
    limit = httpx.Timeout(0.5)
    monkeypatch.setattr(httpx, "Timeout", lambda *_, **__: limit)
    with pytest.raises(RunError) as raised:
        connect(places[place])
    assert raised.value.code == "RUN161"
