"""The Spark session a plan runs in."""

from __future__ import annotations

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
from typing import TYPE_CHECKING

from stateplan.execnodes.errors import RunError
from stateplan.execnodes.runtime.memory import rocksdb_settings
from stateplan.execnodes.runtime.scratch import scratch
from stateplan.execnodes.runtime.spark.local_spark import adapt

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_STREAMING = "org.apache.spark.sql.execution.streaming"

FIXED = {
    "spark.sql.streaming.stateStore.providerClass": f"{_STREAMING}.state.RocksDBStateStoreProvider",
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
    "spark.sql.streaming.checkpointFileManagerClass": (
        f"{_STREAMING}.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.log.level": "ERROR",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
}
"""Settings that a user's ``spark.*`` options override."""

STARTED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.exchange.reuse": "false",
    "spark.sql.execution.reuseSubquery": "false",
    # Ten minutes by default, and the whole folder is listed in every micro-batch: the last 100 of them are kept anyway.
    "spark.sql.streaming.fileSource.log.cleanupDelay": "0",
}
"""The same, of a Spark that is started for the job alone: its rows are blobs, some hundred in a micro-batch, and code
made for them costs more than it saves. No part of a job's query is in it twice, for which Spark looks every time."""

_COMPILERS = {
    False: ("-XX:TieredStopAtLevel=1",),
    True: ("-XX:+IgnoreUnrecognizedVMOptions", "-XX:Tier3DelayOn=0"),
}
"""How the JVM compiles, by whether a job is to last. Its optimizing compiler is half of all the work of small
micro-batches in a job's first minute, and pays after that: so one that ends goes without it, and one that does not
keeps no profiles of code (which slow it down) that this compiler has no time for yet."""

_COLLECTOR = ("-XX:G1HeapRegionSize=4m", "-XX:MetaspaceSize=256m")
"""When the JVM collects garbage. Buffers of 1 MB, several of them for each micro-batch, are no special case to
G1 with regions of this size: otherwise each may start a collection. And loading Spark's classes starts none."""

_ONE_LOGGER_CONTEXT = "-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector"
"""Log4j has one configuration here: it need not walk the stack for whose it is, each time that Spark copies a node of a
plan, which has a logger of its own."""

_FIRST = ("spark-core", "spark-sql", "spark-catalyst", "spark-common-utils", "scala-library")
"""Libraries to be looked at before all others."""

_ATTEMPTS = 2
"""How often a local task is tried: a Python worker that the system kills, for want of memory say, ends no job."""

_SOCKET_FOLDER = 60
"""The longest path of a folder, in bytes, where Spark can put a socket: paths of sockets have at most some hundred."""

_log: Path | None = None


def spark_log() -> Path | None:
    """The file that has what Spark's JVM printed, when this process started it."""
    return _log


def session(options: Mapping[str, str], lasting: bool = False) -> SparkSession:
    """The running Spark session, or a new local one with ``parallelism.default`` cores.

    What the JVM prints goes to a log file (:func:`spark_log`): standard output belongs to the ``print`` connector.

    Args:
        options: session options; ``spark.*`` are handed to Spark.
        lasting: whether the first job has unbounded input.

    Raises:
        RunError: RUN010, Java is missing; RUN011, Spark does not start.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    parallelism = options.get("parallelism.default", "2")
    settings = {
        **DEFAULTS,
        **rocksdb_settings(options),
        "spark.sql.shuffle.partitions": parallelism,
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
    master = options.get("spark.master", f"local[{parallelism},{_ATTEMPTS}]")
    packages = [str(_installed_in()), os.environ.get("PYTHONPATH", "")]
    python_path = os.pathsep.join(filter(None, packages))
    local = master.startswith("local")
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = _worker_python(python_path) if local and os.name == "posix" else sys.executable
    settings.setdefault("spark.executorEnv.PYTHONPATH", python_path)
    settings = {**STARTED, **settings}
    if local:
        _set_up_local(settings, lasting)
    builder = SparkSession.builder.appName(options.get("pipeline.name", "stateplan"))
    builder = builder.master(master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    with _output_to_log() as log:
        try:
            spark = builder.getOrCreate()
        except (PySparkException, OSError) as cause:
            tail = " / ".join(log.read_text(errors="replace").strip().splitlines()[-3:])
            raise RunError("RUN011", problem=f"Spark does not start: {cause} {tail}".strip(), log=log) from cause
    if local and os.name == "posix":
        adapt(spark)
    return spark


def _installed_in() -> Path:
    """The folder that Python imports ``stateplan`` from: workers get it in front of what a user has on PYTHONPATH."""
    spec = find_spec("stateplan")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent.parent


def _set_up_local(settings: dict[str, str], lasting: bool) -> None:
    """Settings of a Spark on this machine. It keeps its files where they are removed with those of this process, even
    after it was killed: the working copies of state stores, shuffles, and libraries that its JVM unpacks."""
    folder = str(scratch("spark"))
    if "SPARK_LOCAL_DIRS" not in os.environ:
        settings.setdefault("spark.local.dir", folder)
    temporary = [] if re.search(r"\s", folder) else [f"-Djava.io.tmpdir={folder}"]
    options = [*_COMPILERS[lasting], *_COLLECTOR, _ONE_LOGGER_CONTEXT, *temporary]
    settings.setdefault("spark.driver.defaultJavaOptions", " ".join(options))
    # Whatever is broadcast, and that is little, gets a buffer of that size: by default 4 MB, four times a micro-batch.
    settings.setdefault("spark.broadcast.blockSize", "64k")
    settings.setdefault("spark.driver.extraClassPath", _class_path())
    if os.name == "posix" and len(os.fsencode(folder)) <= _SOCKET_FOLDER:
        # Over TCP each stage waits some 40 ms for an acknowledgement that is held back.
        settings.setdefault("spark.python.unix.domain.socket.enabled", "true")
        settings.setdefault("spark.python.unix.domain.socket.dir", folder)


def _class_path() -> str:
    """Those of Spark's own libraries that it plans micro-batches with. For every function that it sends to tasks it
    looks for the code of classes, in all libraries one after the other: some 250, in no order."""
    from pyspark.find_spark_home import _find_spark_home

    jars = Path(_find_spark_home()) / "jars"
    return os.pathsep.join(str(jar) for name in _FIRST for jar in sorted(jars.glob(f"{name}[_-]*.jar")))


def _worker_python(python_path: str) -> str:
    """A program for Spark to start Python with, on this machine: this interpreter, with the installed pyspark.

    Spark puts its ``pyspark.zip`` in front of every worker's path. Python caches no compiled modules of an archive, so
    that each of its processes would compile pyspark again, half a second of work for every ``transformWithState``.
    """
    program = scratch("python") / "python"
    program.write_text(f'#!/bin/sh\nPYTHONPATH={shlex.quote(python_path)} exec {shlex.quote(sys.executable)} "$@"\n')
    program.chmod(0o755)
    return str(program)


@contextmanager
def _output_to_log() -> Iterator[Path]:
    """Gives child processes started inside a log file as standard output and error."""
    global _log
    handle, name = tempfile.mkstemp(prefix="stateplan-spark-", suffix=".log")
    _log = Path(name)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [(fd, os.dup(fd)) for fd in (1, 2)]
    try:
        for fd, _ in saved:
            os.dup2(handle, fd)
        yield _log
    finally:
        for fd, copy in saved:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(handle)
