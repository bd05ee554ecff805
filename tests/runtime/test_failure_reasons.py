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
from pyspark.accumulators import AccumulatorTCPServer, UpdateRequestHandler
from pyspark.errors import IllegalArgumentException, PySparkRuntimeError

from stateplan import TableEnvironment
from stateplan.common import failure_reasons
from stateplan.common.errors import CheckpointError, DataError, PlanError, RunError, StateplanError
from stateplan.common.failure_reasons import NO_ADDRESS, NO_LISTENER, OTHER, REASONS, SILENT, kind_of
from stateplan.common.files import filesystem_of
from stateplan.connectors.formats.schema_registry import Registry
from stateplan.gateway.client.http import connect
from stateplan.plans import storage
from stateplan.runtime.failures import as_error, known_error
from stateplan.runtime.sources import Sources
from stateplan.runtime.spark import hadoop, master, session
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.jvm_loss import expect_end
from stateplan.runtime.spark.session import spark_of
from stateplan.runtime.translate import translate

TIMEOUT = "avro-confluent.properties.http.read.timeout.ms"
PLACES = ("unknown", "closed", "silent", "wrong")


def listening(answer: Callable[[socket.socket], None], stack: contextlib.ExitStack) -> str:
    """The address of a server on this machine that does this with each connection."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                answer(server.accept()[0])

    threading.Thread(target=serve, daemon=True).start()
    return address(server)


def address(server: socket.socket) -> str:
    return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture(scope="module")
def places() -> Iterator[dict[str, str]]:
    """An address of each kind of server that is not reached."""

    def wrong(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.sendall(b"220 mail.example.com ESMTP\r\n")
            connection.recv(4096)

    with contextlib.ExitStack() as stack:
        with socket.create_server(("127.0.0.1", 0)) as free:
            closed = address(free)
        yield {
            "unknown": "nosuch.invalid:4711",
            "closed": closed,
            "silent": address(stack.enter_context(socket.create_server(("127.0.0.1", 0)))),
            "wrong": listening(wrong, stack),
        }


def failure_of(call: Callable[[], object]) -> Exception:
    try:
        call()
    except Exception as failure:
        return failure
    raise AssertionError("it does not fail")


@pytest.mark.parametrize(("place", "kind"), list(zip(PLACES, (NO_ADDRESS, NO_LISTENER, SILENT, OTHER), strict=True)))
def test_kinds_of_what_python_raises(places: dict[str, str], place: str, kind: str) -> None:
    url = f"http://{places[place]}/"
    for call in (
        lambda: httpx.get(url, timeout=0.5, trust_env=False),
        lambda: urllib.request.urlopen(url, timeout=0.5),
    ):
        failure = failure_of(call)
        assert kind_of(failure) == kind, failure
        error = as_error(failure)
        assert error.code == "RUN094", error
        assert error.__cause__ is failure


@pytest.mark.parametrize("host", ["a..b", "x" * 64])
def test_a_name_that_no_host_can_have(host: str) -> None:
    failure = failure_of(lambda: socket.create_connection((host, 80), 1))
    assert (kind_of(failure), as_error(failure).code) == (NO_ADDRESS, "RUN094")
    registry = Registry("avro-confluent", {"avro-confluent.url": f"http://{host}", TIMEOUT: "100"})
    with pytest.raises(DataError) as raised:
        registry.schema(1)
    assert raised.value.code == "DATA465"


@pytest.mark.parametrize(("status", "code"), [(401, "DATA466"), (404, "DATA465"), (500, "DATA465"), (200, "DATA465")])
def test_a_web_server_in_the_place_of_a_registry(status: int, code: str) -> None:
    def answer(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 %d x\r\nContent-Length: 13\r\n\r\n<html></html>" % status)

    with contextlib.ExitStack() as stack:
        # The port may have been that of a registry before, whose schemas this process knows.
        url = f"http://{listening(answer, stack)}/no-registry"
        registry = Registry("avro-confluent", {"avro-confluent.url": url, TIMEOUT: "100"})
        for call in (lambda: registry.schema(1), lambda: registry.register("s", {"type": "record", "name": "r"})):
            with pytest.raises(DataError) as raised:
                call()
            assert raised.value.code == code


JAVA = {
    "java.lang.IllegalArgumentException: java.net.UnknownHostException: nosuch.invalid": NO_ADDRESS,
    "java.net.ConnectException: Call From a/1.2.3.4 to b:8020 failed on connection exception": NO_LISTENER,
    "java.net.SocketTimeoutException: 60000 millis timeout while waiting for channel to be ready": SILENT,
    "org.apache.hadoop.ipc.RpcException: RPC response has a length of 1213486160 exceeds maximum": OTHER,
    "java.io.EOFException: End of File Exception between local host is: a": OTHER,
}


@pytest.mark.parametrize("text", JAVA)
@pytest.mark.parametrize("made", [IllegalArgumentException, Py4JError, PySparkRuntimeError])
def test_kinds_of_what_java_says(made: type[Exception], text: str) -> None:
    failure = made(text)
    assert kind_of(failure) == JAVA[text]
    assert as_error(failure).code == "RUN094"


def test_what_is_of_a_library_is_no_bug_and_what_is_ours_is() -> None:
    class StoreError(Exception):
        pass

    StoreError.__module__ = "somestore.client"
    codes = {
        "RUN095": [StoreError("the bucket is odd"), IllegalArgumentException("odd"), Py4JError("odd")],
        "RUN096": [
            MemoryError(),
            ImportError("a.so: failed to map segment from shared object"),
            Py4JError("java.lang.OutOfMemoryError: Java heap space"),
        ],
        "RUN094": [ssl.SSLError("CERTIFICATE_VERIFY_FAILED"), ConnectionResetError(104, "Connection reset by peer")],
        "RUN031": [OSError(28, "No space left on device")],
        "BUG000": [ZeroDivisionError("x"), KeyError("x"), AssertionError(), ValueError("timed out")],
    }
    for code, failures in codes.items():
        for failure in failures:
            assert as_error(failure).code == code, failure
    of_library, of_spark, _ = codes["RUN095"]
    assert "the library somestore failed: StoreError: the bucket is odd" in str(as_error(of_library))
    assert "Spark failed: IllegalArgumentException: odd" in str(as_error(of_spark))
    inner = DataError("DATA111", reason="x")
    outer = RuntimeError("outer")
    outer.__cause__ = inner
    assert as_error(outer) is inner
    assert known_error(Py4JError(f"at worker: {inner.encoded()}")).code == "DATA111"  # type: ignore[union-attr]


def test_a_spark_that_has_died_is_what_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    process = subprocess.Popen([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    for failure in (
        Py4JNetworkError("An error occurred while trying to connect to the Java server"),
        Py4JError("An error occurred while calling o12.sql"),
        ConnectionRefusedError(111, "Connection refused"),
    ):
        error = as_error(failure)
        assert (error.code, error.message) == ("RUN019", "the process of Spark has ended: status -9")
    assert as_error(ZeroDivisionError()).code == "BUG000"


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (3, "RUN019", "Java ran out of memory"),
        (50, "RUN019", "status 50"),
        (52, "RUN019", "a larger 'spark.driver.memory'"),
        (53, "RUN011", "SPARK_LOCAL_DIRS"),
    ],
)
def test_the_status_of_a_spark_that_has_ended_is_explained(
    monkeypatch: pytest.MonkeyPatch, status: int, code: str, words: str
) -> None:
    process = subprocess.Popen([sys.executable, "-c", f"raise SystemExit({status})"])
    monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=process))
    error = as_error(Py4JNetworkError("Answer from Java side is empty"))
    assert error.code == code and words in str(error)


def test_the_end_of_a_spark_prints_no_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    for sent, words in ((b"token", ""), (b"wrong", "ValueError")):
        server = AccumulatorTCPServer(("127.0.0.1", 0), UpdateRequestHandler, "token")
        expect_end(SimpleNamespace(_accumulatorServer=server))  # type: ignore[arg-type]
        with socket.create_connection(server.server_address[:2]) as jvm:  # type: ignore[arg-type]
            jvm.sendall(sent)
        server.handle_request()
        server.server_close()
        printed = capfd.readouterr().err
        assert words in printed and ("Traceback" in printed) == bool(words)


@pytest.mark.parametrize(
    ("name", "text"), [("SPARK_REMOTE", "sc://nosuch.invalid"), ("SPARK_CONNECT_MODE_ENABLED", "1")]
)
def test_the_environment_may_ask_for_spark_connect(monkeypatch: pytest.MonkeyPatch, name: str, text: str) -> None:
    monkeypatch.setenv(name, text)
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)
    with pytest.raises(RunError, match=f"{name} is {text}") as raised:
        spark_of({})
    assert (raised.value.code, raised.value.hint) == ("RUN012", f"unset {name}")


FORMS = ["local", "local[2]", "local[*]", "local[*,3]", "local[ 2 , 3 ]", "local-cluster[2, 1, 1024]", "yarn"]
FORMS += ["spark://a:7077", "spark://a:7077,b:7078", "spark://[::1]:7077", "k8s://https://a.b:6443/x", "k8s://a"]
NO_FORMS = [
    "",
    "locl[2]",
    "local[0]",
    "local[-1]",
    "local[a]",
    "local[2",
    "local-cluster[1,1]",
    "mesos://a:1",
    "SPARK://a:1",
]
NO_FORMS += ["spark://", "spark://a", "spark://a:x", "spark://a:1/b", "k8s://", "yarn-client", "local[2]\n"]


@pytest.mark.parametrize("form", FORMS)
def test_addresses_of_masters(form: str) -> None:
    master.check_form(form)


@pytest.mark.parametrize("form", NO_FORMS)
def test_a_text_that_is_no_address_of_a_master(form: str) -> None:
    with pytest.raises(RunError) as raised:
        master.check_form(form)
    assert raised.value.code == "RUN093"
    assert raised.value.expected == "local[N], spark://HOST:PORT, k8s://URL or yarn"
    hints = {"locl[2]": "did you mean 'local'?", "yarn-client": None, "SPARK://a:1": "did you mean 'spark'?"}
    assert raised.value.hint == hints.get(form)


@pytest.mark.parametrize("place", ["{0}", "file://{0}", "{0}#name", "jars/*.jar,{0}", "https://a.b/c.jar, {0}"])
@pytest.mark.parametrize("key", ["spark.jars", "spark.files", "spark.archives", "spark.submit.pyFiles"])
def test_a_file_for_spark_that_is_not_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, key: str, place: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "a.jar").touch()
    file = str(tmp_path / "none.jar")
    with pytest.raises(RunError, match=f"'{key}' names the file {file}, which does not exist") as raised:
        session._check_files({key: place.format(file)})
    assert raised.value.code == "RUN011"
    Path(file).touch()
    session._check_files({key: place.format(file)})


def test_a_uri_of_a_file_for_spark_is_decoded(tmp_path: Path) -> None:
    file = tmp_path / "a b.jar"
    with pytest.raises(RunError, match=r"a b\.jar, which does not exist"):
        session._check_files({"spark.jars": file.as_uri()})
    file.touch()
    session._check_files({"spark.jars": file.as_uri()})


GATEWAY = "[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number."
NOISE = "WARNING: Using incubator modules: jdk.incubator.vector\nUsing Spark's default log4j profile: x\n"


@pytest.mark.parametrize(
    ("said", "printed", "settings", "problem", "expected"),
    [
        (
            GATEWAY,
            NOISE
            + 'Exception in thread "main" org.apache.spark.SparkException: Executor memory must be positive\n\tat x',
            {"spark.executor.memory": "abc", "spark.master": "local[2]"},
            "org.apache.spark.SparkException: Executor memory must be positive",
            "given: spark.executor.memory, spark.master",
        ),
        (
            GATEWAY,
            "Invalid maximum heap size: -Xmx5x\nError: Could not create the Java Virtual Machine.\nError: A fatal one.",
            {"spark.driver.memory": "5x", "spark.executor.cores": "5", "spark.x": ""},
            "Invalid maximum heap size: -Xmx5x / Error: Could not create the Java Virtual Machine.",
            "given: spark.driver.memory)",
        ),
        (
            "SparkIllegalArgumentException: the value '0' in the config \"spark.task.cpus\" is invalid",
            "26/11/28 ERROR SparkContext: Error initializing SparkContext.",
            {"spark.task.cpus": "0", "spark.executor.cores": "1"},
            "SparkIllegalArgumentException: the value '0' in the config \"spark.task.cpus\" is invalid",
            "given: spark.task.cpus)",
        ),
        (
            GATEWAY,
            NOISE,
            {},
            GATEWAY + " / " + NOISE.strip().replace("\n", " / "),
            "Java 17 or later and enough memory",
        ),
    ],
)
def test_why_spark_does_not_start(
    tmp_path: Path, said: str, printed: str, settings: dict[str, str], problem: str, expected: str
) -> None:
    log = tmp_path / "log"
    log.write_text(printed)
    with session.quietly():
        error = session.start_error(PySparkRuntimeError(said), "local[2]", settings, list(settings), log)
    assert (error.code, error.message) == ("RUN011", f"Spark does not start: {problem}")
    assert expected in str(error.expected)


@pytest.mark.parametrize(("place", "why"), [("unknown", "has no address"), ("closed", "nothing listens there")])
@pytest.mark.parametrize("form", ["spark://{0}", "k8s://https://{0}", "k8s://{0}", "spark://{0},{0}"])
def test_a_master_that_is_not_there(places: dict[str, str], place: str, why: str, form: str) -> None:
    began = time.monotonic()
    with pytest.raises(RunError, match=why) as raised:
        master.check_master(form.format(places[place]))
    assert raised.value.code == "RUN093"
    assert time.monotonic() - began < 5


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """The address of a server that answers the first bytes of a client with these, and closes the connection."""

    def reply(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            if connection.recv(1000):
                connection.sendall(answer)

    with contextlib.ExitStack() as stack:
        yield listening(reply, stack)


STREAM_FAILURE = b"\0\0\0\0\0\0\0\x0f\x08"


def test_one_master_of_several_is_enough(places: dict[str, str]) -> None:
    with answering(STREAM_FAILURE) as good, answering(b"HTTP/1.1 400 Bad Request") as web:
        master.check_master(f"spark://{places['closed']},{places['silent']},{web},{good}")


@pytest.mark.parametrize("form", ["spark://{0}", "spark://{0},{0}", "k8s://https://{0}", "k8s://http://{0}"])
def test_a_master_that_accepts_connections_and_is_silent(
    places: dict[str, str], form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(master, "_ANSWER", 0.2)
    with pytest.raises(RunError, match="it does not answer") as raised:
        master.check_master(form.format(places["silent"]))
    assert raised.value.code == "RUN093"


@pytest.mark.parametrize("answer", [b"", STREAM_FAILURE, b"\x15\x03\x03\0\x02\x02\x46"])
def test_a_master_that_answers_or_breaks_off_is_for_spark_to_judge(answer: bytes) -> None:
    with answering(answer) as place:
        master.check_master(f"spark://{place}")
        master.check_master(f"k8s://https://{place}")


def test_a_server_that_is_no_master() -> None:
    with (
        answering(b"HTTP/1.1 400 Bad Request") as place,
        pytest.raises(RunError, match="does not speak the protocol") as raised,
    ):
        master.check_master(f"spark://{place}")
    assert raised.value.code == "RUN093"


def test_kubernetes_may_have_no_port_and_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert master._places("k8s://https://a.b") == [("a.b", 443)]
    assert master._places("k8s://a.b") == [("a.b", 443)]
    assert master._places("k8s://http://[::1]") == [("[::1]", 80)]
    assert master._places("k8s://https://a.b:6443/x") == [("a.b", 6443)]
    assert master._places("spark://a.b") == master._places("local-cluster[2,1,1024]") == []
    monkeypatch.setenv("https_proxy", "http://proxy:3128")
    monkeypatch.setenv("no_proxy", "b.c")
    assert master._places("k8s://https://a.b") == []
    assert master._places("k8s://https://b.c") == [("b.c", 443)]
    assert master._places("spark://a.b:7077") == [("a.b", 7077)]


SITES = {
    "hostname": "<property><name>yarn.resourcemanager.hostname</name><value>{host}</value></property>",
    "address": "<property><name>yarn.resourcemanager.address</name><value>{host}:8032</value></property>",
    "two": "<property><name>yarn.resourcemanager.ha.rm-ids</name><value>a, b</value></property>"
    "<property><name>yarn.resourcemanager.hostname.a</name><value>{host}</value></property>"
    "<property><name>yarn.resourcemanager.address.b</name><value>{host}:8032</value></property>",
}


@pytest.mark.parametrize("site", SITES)
def test_yarn_is_where_its_configuration_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, site: str) -> None:
    (tmp_path / "yarn-site.xml").write_text(
        f"<configuration>{SITES[site].format(host='nosuch.invalid')}</configuration>"
    )
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    assert set(master._places("yarn")) == {("nosuch.invalid", 8032)}
    with pytest.raises(RunError, match="master yarn cannot be reached: the name of the host has no address") as raised:
        master.check_master("yarn")
    assert raised.value.code == "RUN093"
    (tmp_path / "yarn-site.xml").write_text("<configuration")
    master.check_master("yarn")


def test_yarn_without_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RunError, match="does not say where YARN is"):
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
        master.watch_log("spark://a:1", {"slot.request.timeout": limit}, log),
    ):
        process.wait(60)
        raise Py4JNetworkError("Answer from Java side is empty")
    assert raised.value.code == "RUN093"
    assert time.monotonic() - began < 10


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No file system has answered yet, and none may take long."""
    monkeypatch.setattr(failure_reasons, "_answered", set())
    monkeypatch.setattr(failure_reasons, "PATIENCE", 0.3)


def test_a_file_system_is_asked_until_it_has_answered_once(unasked: None) -> None:
    asked: list[int] = []
    answers = threading.Event()

    def ask() -> None:
        asked.append(1)
        if not answers.is_set():
            answers.wait(60)
        raise FileNotFoundError("x")

    assert failure_reasons.first_answer("hdfs://a", ask) == (SILENT, "no answer within 0 s")
    answers.set()
    for _ in range(2):
        assert failure_reasons.first_answer("hdfs://a", ask) is None
    assert len(asked) == 2  # the second answer counts for all that follow


@pytest.fixture
def silent_hadoop(unasked: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A JVM whose file system does not answer in time."""
    path = SimpleNamespace(getFileSystem=lambda _: system)
    uri = SimpleNamespace(getScheme=lambda: "hdfs", getAuthority=lambda: "a", getPath=lambda: "/x")
    system = SimpleNamespace(
        makeQualified=lambda _: SimpleNamespace(toUri=lambda: uri), getFileStatus=lambda _: time.sleep(0.6)
    )
    jvm = SimpleNamespace(org=SimpleNamespace(apache=SimpleNamespace(hadoop=SimpleNamespace(fs=SimpleNamespace()))))
    jvm.org.apache.hadoop.fs.Path = lambda _: path
    monkeypatch.setattr(hadoop, "_jvm", lambda: jvm)
    monkeypatch.setattr(hadoop, "_configuration", lambda _: None)


@pytest.mark.usefixtures("silent_hadoop")
def test_a_checkpoint_on_a_file_system_that_is_silent() -> None:
    with pytest.raises(CheckpointError, match="hdfs://a/x cannot be reached: it does not answer") as raised:
        hadoop.hadoop_path("hdfs://a/x", {})
    assert raised.value.code == "CKPT052"
    with pytest.raises(PlanError, match="hdfs://a/x cannot be reached: it does not answer") as plan:
        storage.read_bytes("hdfs://a/x")
    assert plan.value.code == "PLAN007"


@pytest.mark.usefixtures("silent_hadoop")
def test_a_table_on_a_file_system_that_is_silent(tmp_path: Path) -> None:
    env = TableEnvironment.create({})
    options = "'connector' = 'filesystem', 'path' = 'hdfs://a/x', 'format' = 'json'"
    env.execute_sql(f"CREATE TABLE src (n BIGINT) WITH ({options})")
    env.execute_sql("CREATE TABLE snk (n BIGINT) WITH ('connector' = 'blackhole')")
    graph = env.compile_plan_sql("INSERT INTO snk SELECT n FROM src").document.graph
    job = translate(graph, {}, 4, job_id="j", start_time=0)
    with pytest.raises(DataError, match="the filesystem of hdfs: cannot be reached: it does not answer") as raised:
        Sources(job, {}, tmp_path / "splits", SparkCheckpoint(tmp_path / "spark")).prepare()
    assert raised.value.code == "DATA108"


@pytest.mark.parametrize("url", ["http://a:1/x", "HTTPS://a/x"])
def test_a_checkpoint_on_a_web_server(url: str) -> None:
    with pytest.raises(CheckpointError, match=r"Spark does not write to 'https?:'") as raised:
        hadoop.checkpoint_path(url, {})
    assert raised.value.code == "CKPT006"


def test_a_file_system_of_hadoop_without_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    for read in (storage.read_bytes, lambda url: hadoop.checkpoint_path(url, {})):
        with pytest.raises(RunError, match="where there is no program bin/java") as raised:
            read("hdfs://a/x")
        assert raised.value.code == "RUN010"


@pytest.fixture(scope="module")
def aws() -> Any:
    """What reads the descriptions of Amazon's services, once for all tests."""
    from aiobotocore.session import AioSession

    return AioSession()


@pytest.mark.parametrize(("place", "kind"), list(zip(PLACES, (NO_ADDRESS, NO_LISTENER, SILENT, OTHER), strict=True)))
def test_an_object_store(
    unasked: None, places: dict[str, str], aws: Any, monkeypatch: pytest.MonkeyPatch, place: str, kind: str
) -> None:
    from s3fs import S3FileSystem

    monkeypatch.setattr(S3FileSystem, "retries", 1)
    S3FileSystem.clear_instance_cache()
    monkeypatch.setattr(failure_reasons, "PATIENCE", 0.3 if place == "silent" else 20)
    limits = {"retries": {"total_max_attempts": 1}}
    made = S3FileSystem(key="a", secret="b", endpoint_url=f"http://{places[place]}", config_kwargs=limits, session=aws)
    monkeypatch.setattr("fsspec.core.url_to_fs", lambda url, **_: (made, url.removeprefix("s3://")))
    with pytest.raises(DataError) as table:
        filesystem_of(f"s3://{place}/table")
    assert (table.value.code, REASONS[kind] in table.value.message) == ("DATA108", True)
    with pytest.raises(PlanError) as plan:
        storage.read_bytes(f"s3://{place}/plan.json")
    assert (plan.value.code, REASONS[kind] in plan.value.message) == ("PLAN007", True)


TABLES = {
    "jdbc": (
        "CREATE TABLE t (a INT) WITH ('connector' = 'jdbc', 'url' = 'jdbc:postgresql://{0}/db', 'table-name' = 't', "
        "'connection.max-retry-timeout' = '1 s')",
        ("RUN140", "RUN146"),
    ),
    "kafka": (
        "CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = '{0}', 'topic' = 't', "
        "'format' = 'json', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', "
        "'properties.default.api.timeout.ms' = '500')",
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
