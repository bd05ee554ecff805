"""Every tweak of Spark can be taken away: the job runs, has the right result, and says once what it runs without."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.stateful_processor import MapState
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

from stateplan.common.errors import OptionError
from stateplan.runtime.spark import collect, hosts, local_spark, session, state_messages, tweaks
from stateplan.runtime.spark.local_spark import adapt, adapt_query, compiled
from stateplan.runtime.spark.query import _RUN_DATA, _RUN_ID
from stateplan.runtime.spark.session import _of_this_machine
from stateplan.runtime.spark.state_messages import update_value
from stateplan.runtime.spark.tweak_settings import probe_settings, tweak_settings, worker_variables
from stateplan.runtime.spark.tweaks import KEPT_MEMORY, OFF, TWEAKS, Tweaks
from tests.runtime.spark_tweaks import EXPECTED, TAKEN, Patch, _fails, class_is_missing, results

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PLAIN = (
    "compilers",
    "collector",
    "logger-context",
    "unix-sockets",
    "call-site",
    "forked-python",
    "worker-daemon",
    KEPT_MEMORY,
)
"""Tweaks that need nothing of Spark's inside: the JVM, Spark and allocators pass over options that they do not know,
and a module that is not there is not forked."""
OF_CLUSTERS = ("lost-hosts",)
"""Tweaks that only a Spark on other machines has."""
OF_EVOLUTIONS = ("stored-state",)
"""Tweaks that no job uses."""
OF_BOUNDED_INPUT = ("last-batch",)
"""Tweaks that only bounded input of several tables has: ``tests/e2e/test_end_of_input.py`` takes them away."""
OF_GUESTS = ("coded-failures",)
"""Tweaks that only a Spark which the user started has."""


@pytest.fixture(autouse=True)
def untried(monkeypatch: Patch) -> None:
    """No tweak has been tried in this process."""
    monkeypatch.setattr(tweaks, "_failures", {})
    monkeypatch.setattr(tweaks, "_successes", set())


# ---- how each one is taken away ---------------------------------------------------------------------------------


def test_every_tweak_is_taken_away() -> None:
    assert sorted([*TAKEN, *PLAIN, *OF_CLUSTERS, *OF_EVOLUTIONS, *OF_BOUNDED_INPUT, *OF_GUESTS]) == sorted(TWEAKS)


# ---- one by one, in the session of the test run -----------------------------------------------------------------


@pytest.fixture
def said() -> list[str]:
    return []


def set_up(spark: SparkSession, said: list[str]) -> Tweaks:
    """What is done when a Spark is started for a job, as far as a running one can do it again."""
    made = Tweaks({}, said.append)
    _of_this_machine(made, False, {})
    made.attempt("worker-python", session.worker_python, "")
    for name, settings in tweak_settings(made).items():
        made.works(name, probe_settings, spark, settings)
    adapt(spark, made)
    adapt_query(spark, made)
    made.works("state-messages", state_messages.probe)
    return made


@pytest.fixture
def set_up_again(spark: SparkSession, monkeypatch: Patch) -> Iterator[None]:
    """Later tests have the session as it was."""
    yield
    monkeypatch.undo()
    adapt(spark, Tweaks({}))


@pytest.mark.spark
@pytest.mark.usefixtures("set_up_again")
def test_none_is_lost(spark: SparkSession, said: list[str], tmp_path: Path) -> None:
    set_up(spark, said)
    assert results(tmp_path, {}, said.append) == EXPECTED
    assert [line for line in said if "tweak" in line] == []


@pytest.mark.spark
@pytest.mark.usefixtures("set_up_again")
@pytest.mark.parametrize("name", [n for n in TAKEN if n not in ("collect-async", "json-progress")])
def test_one_is_lost_alone(spark: SparkSession, said: list[str], monkeypatch: Patch, name: str) -> None:
    TAKEN[name](monkeypatch)
    set_up(spark, said)
    set_up(spark, said)
    assert len(said) == 1, said
    assert said[0].startswith(f"running without the Spark tweak '{name}', which this Spark does not support: ")


@pytest.mark.spark
@pytest.mark.usefixtures("set_up_again")
def test_all_are_lost_together(
    spark: SparkSession, said: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for take in TAKEN.values():
        take(monkeypatch)
    set_up(spark, said)
    assert results(tmp_path, {}, said.append) == EXPECTED
    lost = {line.split("'")[1] for line in said if line.startswith("running without the Spark tweak '")}
    assert lost == TAKEN.keys() - {"json-progress"}


@pytest.mark.spark
def test_hosts_are_watched_only_where_the_scheduler_has_some(spark: SparkSession, said: list[str]) -> None:
    made = Tweaks({}, said.append)
    made.attempt("lost-hosts", hosts.watch, spark.sparkContext, {})
    assert said == [
        "running without the Spark tweak 'lost-hosts', which this Spark does not support: its scheduler is a "
        "org.apache.spark.scheduler.local.LocalSchedulerBackend"
    ]
    assert not made.on("lost-hosts")
    hosts.watch(spark.sparkContext, {"heartbeat.rpc-failure-threshold": "-1"})


@pytest.mark.spark
def test_a_spark_whose_log_has_no_filters(spark: SparkSession, said: list[str], monkeypatch: Patch) -> None:
    class_is_missing("coded-failures")(monkeypatch)
    monkeypatch.setattr(local_spark, "_guests", set())
    local_spark.filter_log(spark, Tweaks({}, said.append))
    local_spark.filter_log(spark, Tweaks({}, said.append))
    assert [line.split("'")[1] for line in said] == ["coded-failures"]


@pytest.mark.spark
def test_only_failures_with_a_code_are_kept_out_of_a_log(spark: SparkSession, monkeypatch: Patch) -> None:
    monkeypatch.setattr(local_spark, "_guests", set())
    made = Tweaks({})
    local_spark.filter_log(spark, made)
    assert made.on("coded-failures")
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    log4j = jvm.org.apache.logging.log4j
    logger = log4j.LogManager.getContext(False).getConfiguration().getLoggerConfig("org.apache.spark.executor.Executor")

    def is_omitted(text: str, cause: object = None) -> bool:
        event = log4j.core.impl.Log4jLogEvent.newBuilder().setLevel(log4j.Level.ERROR)
        return bool(logger.isFiltered(event.setMessage(log4j.message.SimpleMessage(text)).setThrown(cause).build()))

    coded = jvm.java.lang.RuntimeException("the cause <<stateplan:DataError:{}>>")
    assert is_omitted("a task failed", jvm.java.lang.IllegalStateException("outside", coded))
    assert is_omitted("a task failed <<stateplan:DataError:{}>>")
    assert not is_omitted("a task failed", jvm.java.lang.IllegalStateException("without a code"))


@pytest.mark.spark
def test_a_spark_without_a_rewriter_of_state(spark: SparkSession, said: list[str], monkeypatch: Patch) -> None:
    made = Tweaks({}, said.append)
    class_is_missing("stored-state")(monkeypatch)
    assert not made.works("stored-state", compiled, spark, "stored-state")
    assert [line.split("'")[1] for line in said] == ["stored-state"]


@pytest.mark.spark
def test_reports_come_without_collect_async(
    spark: SparkSession, said: list[str], tmp_path: Path, monkeypatch: Patch
) -> None:
    TAKEN["collect-async"](monkeypatch)
    assert results(tmp_path, {}, said.append) == EXPECTED
    assert [line for line in said if "tweak" in line] == [
        "running without the Spark tweak 'collect-async', which this Spark does not support: "
        "'JavaPackage' object is not callable"
    ]


@pytest.mark.spark
@pytest.mark.parametrize("call", ["queryExecution", "toRdd", "toJavaRDD", "collectAsync"])
def test_a_call_of_sparks_that_is_gone(spark: SparkSession, said: list[str], call: str) -> None:
    frame = spark.createDataFrame([(bytearray(b"a"),)], "reports BINARY")

    class Gone:
        """A Java object that has all methods but one."""

        def __getattr__(self, name: str) -> Any:
            if name == call:
                raise AttributeError(f"no {name}")
            return lambda: Gone()

    frame.__dict__["_jdf"] = (real := frame._jdf)
    asked = SimpleNamespace(_jdf=Gone(), sparkSession=spark, collect=lambda: [(b"a",)])
    assert collect.run_batch(asked, "job", False, Tweaks({}, said.append)) == [b"a"]  # type: ignore[arg-type]
    assert real is frame._jdf
    assert len(said) == 1


@pytest.mark.spark
@pytest.mark.parametrize("off", ["json-progress", None])
def test_a_listener_gets_figures_without_json(
    spark: SparkSession, tmp_path: Path, monkeypatch: Patch, off: str | None
) -> None:
    from stateplan.runtime.spark.listener import MetricsListener

    seen: list[tuple[int, float]] = []

    class Listener(MetricsListener):
        def onBatchMetrics(self, progress: Any, metrics: Any, job: Any) -> None:  # noqa: N802
            seen.append((progress.batchId, metrics.total("rows_in")))

    if off is None:
        TAKEN["json-progress"](monkeypatch)
    else:
        monkeypatch.setattr(Tweaks, "on", lambda self, name: name != off)
    listener = Listener()
    spark.streams.addListener(listener)
    try:
        assert results(tmp_path, {}) == EXPECTED
        jvm: Any = spark.sparkContext._jsc.sc()
        jvm.listenerBus().waitUntilEmpty()
    finally:
        spark.streams.removeListener(listener)
    assert [batch for batch, _ in seen] == [0, 1]
    assert all(rows > 0 for _, rows in seen)


# ---- all of them, in a Spark of its own --------------------------------------------------------------------------


def _alone(folder: Path, code: str) -> list[str]:
    """What the job said in a process of its own, after ``code``; its results are right."""
    script = f"""
from pathlib import Path
import pytest
from tests.runtime.spark_tweaks import EXPECTED, TAKEN, results
said, options = [], {{}}
{code}
assert results(Path({str(folder)!r}), options, said.append) == EXPECTED
print(*said, sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if "tweak" in line]


# In the suite, they are lost together in the Spark of the tests.
@pytest.mark.long
@pytest.mark.spark
def test_a_spark_that_takes_none(tmp_path: Path) -> None:
    said = _alone(tmp_path, "for take in TAKEN.values(): take(pytest.MonkeyPatch())")
    assert sorted(line.split("'")[1] for line in said) == sorted(TAKEN.keys() - {"json-progress"})


@pytest.mark.long
@pytest.mark.spark
def test_a_job_that_wants_none(tmp_path: Path) -> None:
    assert _alone(tmp_path, f"options = {{{OFF!r}: 'all'}}") == []


def test_processes_started_later_do_not_inherit_the_python_of_this_spark(spark: SparkSession) -> None:
    assert spark.sparkContext.pythonExec != os.environ.get("PYSPARK_PYTHON")


# ---- the option --------------------------------------------------------------------------------------------------


def test_a_worker_stores_the_same_with_short_messages() -> None:
    sent: list[bytes] = []
    api = StatefulProcessorApiClient.__new__(StatefulProcessorApiClient)
    api.pickleSer = CPickleSerializer()
    answers = iter([(0, "", b""), (0, "", b""), (1, "no such state", b""), (1, "no such state", b"")])
    api._send_proto_message = sent.append  # type: ignore[method-assign]
    api._receive_proto_message = lambda: next(answers)  # type: ignore[method-assign]
    state = MapState(MapStateClient(api, _RUN_ID, _RUN_DATA), "runs")
    state.updateValue(("a/0",), (b"\0\xff" * 1000,))
    update_value(state, ("a/0",), (b"\0\xff" * 1000,))
    assert sent[0] == sent[1]
    for put in (state.updateValue, partial(update_value, state)):
        with pytest.raises(PySparkRuntimeError, match=r"^Error updating map state value: no such state$"):
            put(("a/0",), (b"",))


def test_variables_of_workers_are_those_of_the_tweak_or_of_the_user() -> None:
    settings = tweak_settings(Tweaks({}))[KEPT_MEMORY]
    own = {"spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "1"}
    assert worker_variables({**settings, **own})["MALLOC_TRIM_THRESHOLD_"] == "1"
    assert worker_variables(settings)["MALLOC_MMAP_THRESHOLD_"] == str(32 << 20)
    assert KEPT_MEMORY not in tweak_settings(Tweaks({OFF: KEPT_MEMORY}))


def test_a_tweak_is_turned_off() -> None:
    made = Tweaks({OFF: " local-files, collector"})
    assert not made.on("local-files") and not made.on("collector") and made.on("rule-counts")
    assert made.attempt("local-files", _fails) is None
    java = _of_this_machine(made, True, {})["spark.driver.defaultJavaOptions"]
    assert "UseParallelGC" not in java and "Tier3DelayOn" in java
    bounded = _of_this_machine(made, False, {})["spark.driver.defaultJavaOptions"]
    assert "TieredStopAtLevel=1" in bounded and "ReservedCodeCacheSize=240m" in bounded
    assert not any(Tweaks({OFF: "all"}).on(name) for name in TWEAKS)


def test_a_collector_that_a_user_chooses_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def java(**settings: str) -> str:
        given = {f"spark.driver.{name}": value for name, value in settings.items()}
        return _of_this_machine(Tweaks({}), True, given)["spark.driver.defaultJavaOptions"]

    assert "-XX:+UseParallelGC" in java() and "-XX:+UseParallelGC" in java(extraJavaOptions="-XX:-UseG1GC -Da=b")
    assert "GC" not in java(extraJavaOptions="-Da=b -XX:+UseG1GC") and "GC" not in java(
        defaultJavaOptions="-XX:+UseZGC"
    )
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC")
    assert "GC" not in java()
    monkeypatch.delenv("JAVA_TOOL_OPTIONS")
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-java-options -XX:+UseG1GC pyspark-shell")
    assert "GC" not in java()


def test_a_name_that_no_tweak_has() -> None:
    with pytest.raises(OptionError, match="'local-file' is not a value of the option") as error:
        Tweaks({OFF: "local-file"})
    assert error.value.hint == "did you mean 'local-files'?"
