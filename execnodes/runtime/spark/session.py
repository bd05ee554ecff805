"""The Spark session a plan runs in."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stateplan.execnodes.errors import RunError
from stateplan.execnodes.runtime.memory import rocksdb_settings
from stateplan.execnodes.runtime.scratch import scratch
from stateplan.execnodes.runtime.spark.local_spark import adapt
from stateplan.execnodes.runtime.spark.tweaks import TWEAKS, Tweaks
from stateplan.execnodes.settings import parallelism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIXED = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # An attempt of a micro-batch that never was committed may still upload its state, after the next attempt has.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings the runtime depends on."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.adaptive.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
}
"""Settings that a user's ``spark.*`` options override."""

_FIRST = ("spark-core", "spark-sql", "spark-catalyst", "spark-common-utils", "scala-library")
"""Libraries to be looked at before all others."""

_LOG = "spark.log"

_ATTEMPTS = 2
"""How often a local task is tried: a Python worker that the system kills, for want of memory say, ends no job."""

_SOCKET_FOLDER = 60
"""The longest path of a folder, in bytes, where Spark can put a socket: paths of sockets have at most some hundred."""

_printed: list[Path] = []
"""The file that has what the JVM printed that this process started; it goes when the process ends."""


def session(options: Mapping[str, str], lasting: bool = False, tweaks: Tweaks | None = None) -> SparkSession:
    """The running Spark session, or a new local one with ``parallelism.default`` cores.

    What the JVM prints goes to a log file: standard output belongs to the ``print`` connector.

    Args:
        options: session options; ``spark.*`` are handed to Spark.
        lasting: whether the first job has unbounded input.
        tweaks: of the job.

    Raises:
        RunError: RUN010, Java is missing; RUN011, Spark does not start.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    tweaks = tweaks or Tweaks(options)
    settings = {
        **DEFAULTS,
        **rocksdb_settings(options),
        "spark.sql.shuffle.partitions": str(parallelism(options)),
        **{k: v for k, v in options.items() if k.startswith("spark.")},
        **FIXED,
    }
    running = SparkSession.getActiveSession()
    if running is not None:
        for key, value in settings.items():
            if key.startswith("spark.sql.") and running.conf.isModifiable(key):
                running.conf.set(key, value)
        return running
    if not shutil.which("java") and not os.environ.get("JAVA_HOME"):
        raise RunError("RUN010")
    master = options.get("spark.master", f"local[{parallelism(options)},{_ATTEMPTS}]")
    packages = [str(_installed_in()), os.environ.get("PYTHONPATH", "")]
    python_path = os.pathsep.join(filter(None, packages))
    local = master.startswith("local")
    python = os.environ.get("PYSPARK_PYTHON")
    if python is None and local and os.name == "posix":
        python = tweaks.attempt("worker-python", _worker_python, python_path)
    settings.setdefault("spark.executorEnv.PYTHONPATH", python_path)
    if local:
        settings = {**_of_this_machine(tweaks, lasting), **settings}
    tuned = _tuned(tweaks)
    builder = SparkSession.builder.appName(options.get("pipeline.name", "stateplan")).master(master)
    for key, value in {**{k: v for found in tuned.values() for k, v in found.items()}, **settings}.items():
        builder = builder.config(key, value)
    with _output_to_log() as log, _environment("PYSPARK_PYTHON", python or sys.executable):
        try:
            spark = builder.getOrCreate()
        except (PySparkException, OSError) as cause:
            tail = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
            problem = f"Spark does not start: {cause} {tail}".strip()
            raise RunError("RUN011", problem=problem, log=keep_log()) from cause
    for name, found in tuned.items():
        if not tweaks.works(name, _probe_settings, spark, found):
            for key in found.keys() - settings.keys():
                if key.startswith("spark.sql."):
                    spark.conf.unset(key)
    if local and os.name == "posix":
        adapt(spark, tweaks)
    return spark


def _installed_in() -> Path:
    """The folder that Python imports ``stateplan`` from: workers get it in front of what a user has on PYTHONPATH."""
    spec = find_spec("stateplan")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent.parent


def _tuned(tweaks: Tweaks) -> dict[str, Mapping[str, str]]:
    """The settings of the tweaks that are settings."""
    return {name: tweak.settings for name, tweak in TWEAKS.items() if tweak.settings and tweaks.on(name)}


def _probe_settings(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Fails for a setting that Spark does not know, or the name of a class that it does not have."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
    for key, value in settings.items():
        if value.startswith("org."):
            jvm.java.lang.Class.forName(value)
        elif jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(key) is None:
            raise ValueError(f"it has no setting '{key}'")


def _of_this_machine(tweaks: Tweaks, lasting: bool) -> dict[str, str]:
    """Settings of a Spark on this machine. It keeps its files where they are removed with those of this process, even
    after it was killed: the working copies of state stores, shuffles, and libraries that its JVM unpacks."""
    folder = str(scratch("spark"))
    java = ["-XX:+IgnoreUnrecognizedVMOptions"]
    if tweaks.on("compilers"):
        java.append("-XX:Tier3DelayOn=0" if lasting else "-XX:TieredStopAtLevel=1")
    java += [option for name, tweak in TWEAKS.items() if tweaks.on(name) for option in tweak.java]
    if not re.search(r"\s", folder):
        java.append(f"-Djava.io.tmpdir={folder}")
    settings = {"spark.driver.defaultJavaOptions": " ".join(java)}
    if "SPARK_LOCAL_DIRS" not in os.environ:
        settings["spark.local.dir"] = folder
    first = tweaks.attempt("class-path", _class_path)
    if first is not None:
        settings["spark.driver.extraClassPath"] = first
    if tweaks.on("unix-sockets") and os.name == "posix" and len(os.fsencode(folder)) <= _SOCKET_FOLDER:
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = folder
    return settings


def _class_path() -> str:
    """Those of Spark's own libraries that it plans micro-batches with."""
    from pyspark.find_spark_home import _find_spark_home

    jars = Path(_find_spark_home()) / "jars"
    found = [str(jar) for name in _FIRST for jar in sorted(jars.glob(f"{name}[_-]*.jar"))]
    if not found:
        raise FileNotFoundError(f"{jars} has none of {', '.join(_FIRST)}")
    return os.pathsep.join(found)


def _worker_python(python_path: str) -> str:
    """A program for Spark to start Python with, on this machine: this interpreter, with the installed pyspark. Raises
    OSError where it cannot be run."""
    program = scratch("python") / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(python_path)} exec {shlex.quote(sys.executable)} "$@"\n')
    program.chmod(0o755)
    if not os.access(program, os.X_OK):
        raise PermissionError(f"{program} cannot be run")
    return str(program)


def keep_log() -> Path | None:
    """Something failed: what the JVM printed stays when this process has ended, in the folder for temporary files. None
    when this process started no JVM."""
    if _printed and _printed[0].name == _LOG:
        with contextlib.suppress(OSError):
            kept = Path(tempfile.gettempdir()) / f"stateplan-{_printed[0].parent.name}.log"
            _printed[0] = _printed[0].rename(kept)
    return _printed[0] if _printed else None


@contextmanager
def _environment(name: str, value: str) -> Iterator[None]:
    """Sets an environment variable for the time of the block. Processes that are started later do not inherit it."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


@contextmanager
def _output_to_log() -> Iterator[Path]:
    """Gives child processes started inside a log file as standard output and error."""
    log = scratch("spark") / _LOG
    _printed[:] = [log]
    handle = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [(fd, os.dup(fd)) for fd in (1, 2)]
    try:
        for fd, _ in saved:
            os.dup2(handle, fd)
        yield log
    finally:
        for fd, copy in saved:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(handle)
