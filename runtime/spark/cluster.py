"""A Spark on other machines: its workers are looked at before a job reads a row.

Codes: RUN014 to RUN016.
"""

from __future__ import annotations

import json
import logging
import os
import py_compile
import re
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from stateplan.common.errors import RunError
from stateplan.common.settings import value
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark import probe
from stateplan.runtime.spark.session import is_local, keep_log
from stateplan.runtime.spark.tweaks import reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

T = TypeVar("T")

_log = logging.getLogger("stateplan")

PACKAGE = "stateplan"
_TIMEOUT = "slot.request.timeout"
_PATIENCE = 10.0
"""Seconds without an executor after which a message says what the job waits for."""
_ROUNDS = 5
"""How often tasks are sent to find every executor."""
_TELLING = re.compile(
    r"Executor (?:updated|.* removed)|is now (?:EXITED|FAILED|LOST)|Lost executor|has not accepted any resources"
    r"|masters are unresponsive|Application (?:has been killed|report)|exited with code"
)
"""Lines of the driver's log that say why there is no executor."""

_able: set[str] = set()
"""The applications on this machine whose Python can run a job."""
_shipped: set[str] = set()
"""The applications that stateplan was sent to."""
_shipping = threading.Lock()


def meet_executors(spark: SparkSession, options: Mapping[str, str], tell: Callable[[str], None]) -> int:
    """Waits until Spark has executors whose Python can run the job; sends them stateplan if they lack it, or have
    another one. The number of tasks that they run at once.

    Raises:
        RunError: RUN014, no executor takes a task within ``slot.request.timeout``; RUN015, its Python cannot run the
            job.
    """
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(probe)
    application = spark.sparkContext.applicationId
    local = is_local(spark.sparkContext.master)
    if local and application in _able:
        return int(spark.sparkContext.defaultParallelism)
    _hear_of_executors(spark)
    executors = _able_executors(spark, options, tell)
    ours = probe.digest(PACKAGE)
    with _shipping:
        if application not in _shipped and any(facts["digest"] != ours for facts in executors):
            spark.sparkContext.addPyFile(str(_package_zip()))
            _shipped.add(application)
    if local:
        _able.add(application)
        warn_of_output(spark.conf.get)
    return int(spark.sparkContext.defaultParallelism)


def _able_executors(
    spark: SparkSession, options: Mapping[str, str], tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """What :func:`on_executors` finds, if the Python of all of them can run the job.

    PySpark starts ``python3`` for workers unless the user names a program. On this machine that may be another Python
    than the one which runs this program, as in a notebook whose environment is not activated. If it cannot run the job,
    workers get the Python of this program.

    Raises:
        RunError: RUN014, RUN015.
    """
    try:
        return _checked_executors(spark, options, tell)
    except RunError as error:
        if error.code != "RUN015" or not _has_default_python(spark):
            raise
    tell(f"workers start {sys.executable}: the 'python3' of PATH cannot run the job")
    spark.sparkContext.pythonExec = sys.executable
    return _checked_executors(spark, options, tell)


def _has_default_python(spark: SparkSession) -> bool:
    """Whether Spark runs on this machine alone, and nobody has named the Python of its workers."""
    context = spark.sparkContext
    program = os.environ.get("PYSPARK_PYTHON") or context.getConf().get("spark.pyspark.python")
    return is_local(context.master) and not program and context.pythonExec == "python3"


def _checked_executors(
    spark: SparkSession, options: Mapping[str, str], tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    executors = on_executors(spark, partial(probe.describe, PACKAGE, 0.1), options, tell)
    for facts in executors:
        if facts["missing"]:
            name, problem = next(iter(facts["missing"].items()))
            raise RunError(
                "RUN015", host=f"host {facts['executor'][0]}", python=facts["python"], library=name, problem=problem
            )
    return executors


def warn_of_output(setting: Callable[[str, str], str | None]) -> None:
    """Says once how to make a session of the user's quiet, if Spark draws progress bars on standard error.

    Python programs have no console for notes, and only they can bring a session.

    Args:
        setting: the value of a setting of Spark, or a default.
    """
    if setting("spark.ui.showConsoleProgress", "false") == "true":
        _log.warning(
            "This Spark session prints progress bars and its log to standard error. To turn the bars off, build it "
            "with .config('spark.ui.showConsoleProgress', 'false'). To turn off the log, "
            "call spark.sparkContext.setLogLevel('OFF'). Errors of jobs are raised in Python in any case."
        )


def on_executors(
    spark: SparkSession, work: Callable[[], dict[str, Any]], options: Mapping[str, str], tell: Callable[[str], None]
) -> list[dict[str, Any]]:
    """What ``work`` gives in a Python worker of every executor that Spark has now: a dict with its ``executor``.

    Raises:
        RunError: RUN014, RUN015.
    """
    context = spark.sparkContext
    facts_by_executor: dict[Any, dict[str, Any]] = {}
    for _ in range(_ROUNDS):
        tasks = 2 * max(1, context.defaultParallelism)
        rows = context.parallelize(range(tasks), tasks).mapPartitions(lambda _: [work()])
        for facts in _in_time(spark, rows.collect, options, tell):
            facts_by_executor[tuple(facts["executor"])] = facts
        if len(facts_by_executor) >= _executors(spark):
            break
    return list(facts_by_executor.values())


def _executors(spark: SparkSession) -> int:
    """How many executors Spark has now."""
    if is_local(spark.sparkContext.master):
        return 1
    scala: Any = spark.sparkContext._jsc.sc()  # noqa: SLF001 - PySpark's tracker of jobs does not know executors
    return len(scala.statusTracker().getExecutorInfos()) - 1  # the driver is one of them


def _in_time(spark: SparkSession, job: Callable[[], T], options: Mapping[str, str], tell: Callable[[str], None]) -> T:
    """The result of a job of Spark, cancelled when no executor takes it in time. Raises RunError RUN014, RUN015."""
    from pyspark import InheritableThread

    context = spark.sparkContext
    results: list[T] = []
    failures: list[Exception] = []
    group = f"stateplan-probe-{time.monotonic_ns()}"

    def run() -> None:
        context.setJobGroup(group, "stateplan looks at the executors", interruptOnCancel=True)
        try:
            results.append(job())
        except Exception as cause:  # PySpark's or Py4J's
            failures.append(cause)

    thread: threading.Thread = InheritableThread(target=run, daemon=True)
    limit = value(options, _TIMEOUT) / 1000
    since = time.monotonic()
    has_said = False
    thread.start()
    while thread.is_alive():
        thread.join(0.2)
        if _has_started(spark, group):
            since = time.monotonic()
        elapsed = time.monotonic() - since
        if not has_said and elapsed > _PATIENCE:
            has_said = True
            tell(f"waiting for an executor of {context.master} ({_TIMEOUT}: {limit:.0f} s)")
        if elapsed > limit:
            context.cancelJobGroup(group)
            words = _reasons(spark)
            raise RunError("RUN014", master=context.master, seconds=round(limit), option=_TIMEOUT, reason=words)
    if failures:
        raise _unfit(failures[0]) from failures[0]
    return results[0]


def _has_started(spark: SparkSession, group: str) -> bool:
    """Whether an executor runs a task of a job now."""
    tracker = spark.sparkContext.statusTracker()
    stages = [s for job in tracker.getJobIdsForGroup(group) for s in (tracker.getJobInfo(job) or _NO_JOB).stageIds]
    stage_infos = [info for info in map(tracker.getStageInfo, stages) if info is not None]
    return any(info.numActiveTasks for info in stage_infos)


class _NO_JOB:  # noqa: N801 - stands for a value
    stageIds: tuple[int, ...] = ()  # noqa: N815 - Spark's name


def _unfit(failure: Exception) -> RunError:
    """What the failure of a first task says of the executors' Python."""
    text = str(failure)
    program = re.search(r'Cannot run program "([^"]*)"', text)
    if program:
        return RunError("RUN015.program", program=program[1], where="the executors have")
    mismatch = re.search(r"PYTHON_VERSION_MISMATCH\]\s*(.*?)\.?\s*(?:\n|$)", text)
    if mismatch:
        return RunError("RUN015.python", problem=mismatch[1], what="the Python of the executors has another version")
    return RunError("RUN015.python", problem=reason(failure)[:500], what="the first task on the executors failed")


def _hear_of_executors(spark: SparkSession) -> None:
    """Lets the driver's log say what becomes of executors."""
    try:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark sets the level of all loggers only
        level = jvm.org.apache.logging.log4j.Level.INFO
        jvm.org.apache.logging.log4j.core.config.Configurator.setLevel("org.apache.spark.deploy.client", level)
    except Exception:  # another logger: the message says less then
        return


def _reasons(spark: SparkSession) -> str:
    """Why there is no executor: from the log of a driver that was started here, and from the log of an executor that a
    standalone master knows."""
    log = keep_log()
    lines = log.read_text(errors="replace").splitlines() if log is not None else []
    words = [re.sub(r"^\S+ \S+ [A-Z]+ ", "", line) for line in lines if _TELLING.search(line)]
    return "; ".join([*dict.fromkeys(words[-2:]), *_executor_log(spark)]) or "the cluster gives no reason"


def _executor_log(spark: SparkSession) -> list[str]:
    """The last line of an exception in the log of the newest executor of a standalone cluster."""
    host = re.match(r"spark://([^:,]+)", spark.sparkContext.master)
    application = spark.sparkContext.applicationId
    if host is None:
        return []
    try:
        state = json.loads(_fetch(f"http://{host[1]}:8080/json/"))
        for worker in state["workers"]:
            for number in range(3):
                log = _fetch(
                    f"{worker['webuiaddress']}/log/?appId={application}&executorId={number}&logType=stderr"
                    "&byteLength=20000"
                )
                causes = re.findall(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error): .*)$", log, re.MULTILINE)
                if causes:
                    return [f"executor {number} on {worker['host']}: {causes[-1]}"]
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return []


def _fetch(url: str) -> str:
    with urllib.request.urlopen(url, timeout=3) as answer:
        return str(answer.read().decode("utf-8", "replace"))


def _package_zip() -> Path:
    """stateplan as an archive that Python imports from, with its bytecode."""
    from importlib.util import find_spec

    spec = find_spec(PACKAGE)
    assert spec is not None and spec.submodule_search_locations
    folder = scratch("package")
    archive = folder / f"{PACKAGE}.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as out:
        for name, path in probe.package_files(spec.submodule_search_locations[0]):
            out.write(path, f"{PACKAGE}/{name}")
            if name.endswith(".py"):
                compiled_path = py_compile.compile(
                    path,
                    str(folder / "module.pyc"),
                    f"{PACKAGE}/{name}",
                    doraise=True,
                    invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
                )
                out.write(compiled_path or path, f"{PACKAGE}/{name}c")
    return archive


def check_python(spark: SparkSession) -> None:
    """Looks for the workers' Python on the driver's machine, where Spark starts it to plan a stateful operator.

    Raises:
        RunError: RUN015, it is not there, or lacks libraries.
    """
    program: str = spark.sparkContext.pythonExec
    python = shutil.which(program)
    if python is None:
        raise RunError("RUN015.program", program=program, where="the driver's machine has")
    if python == sys.executable or is_local(spark.sparkContext.master):
        return
    lines = [f"import {name}" for name in ("pyspark", PACKAGE, *probe.LIBRARIES)]
    trial = subprocess.run([python, "-c", "\n".join(lines)], capture_output=True, text=True, errors="replace")
    if trial.returncode:
        problem = (trial.stderr.strip().splitlines() or ["it ends at once"])[-1]
        raise RunError("RUN015", python=python, problem=problem, host="the driver's machine", library="what it needs")


def check_reach(
    spark: SparkSession, check: Callable[[], None], options: Mapping[str, str], tell: Callable[[str], None]
) -> None:
    """Runs ``check`` in a worker of every executor.

    Raises:
        RunError: RUN016, it raises a StateplanError on one of them.
    """

    def work() -> dict[str, Any]:
        from stateplan.common.errors import StateplanError

        answer: dict[str, Any] = {"executor": probe.executor(), "problem": None}
        try:
            check()
        except StateplanError as error:
            answer["problem"] = error.message
        time.sleep(0.1)
        return answer

    for facts in on_executors(spark, work, options, tell):
        if facts["problem"] is not None:
            raise RunError("RUN016", host=facts["executor"][0], problem=facts["problem"])
