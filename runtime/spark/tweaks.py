"""The tweaks: everything that a job makes Spark do differently, only to be faster.

Most depend on undocumented parts of Spark, which any release may change. Each tweak is probed before it is used. If
the probe fails, for any reason, the job runs without the tweak and reports it once. The option :data:`OFF` turns
tweaks off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import ParamSpec, TypeVar

from stateplan.common.errors import OptionError, nearest
from stateplan.common.lazy_dataclass import dataclass

P = ParamSpec("P")
T = TypeVar("T")

OFF = "spark.stateplan.tweaks.off"
"""The option with the names of tweaks to turn off, comma-separated, or ``all``."""

KEPT_MEMORY = "kept-memory"
"""The tweak that takes memory."""


COLLECTOR = "collector"
"""The tweak with a collector of garbage, which a JVM refuses to start with two of."""


LAST_BATCH = "last-batch"
"""The tweak that counts micro-batches."""


@dataclass(frozen=True)
class Tweak:
    """One tweak.

    Attributes:
        default: what Spark does by default.
        tweaked: what it does with the tweak.
        gain: the measured saving per micro-batch, with ten rows through three levels of state on two cores.
        settings: settings of Spark; ``spark.*`` options override them.
        java: options of the JVM.
    """

    default: str
    tweaked: str
    gain: str
    settings: Mapping[str, str] = field(default_factory=dict)
    java: tuple[str, ...] = ()


TWEAKS: dict[str, Tweak] = {
    # settings of a Spark that is started for the job
    "no-codegen": Tweak(
        "generates code for each plan",
        "generates none: a micro-batch has only a few hundred blobs as rows",
        "35 ms of processor time",
        settings={"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    ),
    "no-plan-reuse": Tweak(
        "looks for equal parts of a plan",
        "does not, because plans of jobs have none",
        "9 ms of planning",
        settings={"spark.sql.exchange.reuse": "false", "spark.sql.execution.reuseSubquery": "false"},
    ),
    "source-log": Tweak(
        "keeps its log of source files for ten minutes and lists all of it in every micro-batch",
        "keeps the last 100 micro-batches, which it needs",
        "7 % of planning in the first 200 micro-batches, more later",
        settings={"spark.sql.streaming.fileSource.log.cleanupDelay": "0"},
    ),
    "file-tasks": Tweak(
        "looks at each file of a micro-batch in a task of its own, if there are more than 32",
        "looks at them in eight tasks",
        "0.3 s instead of 4.5 s for a micro-batch of 2,000 files",
        settings={"spark.sql.sources.parallelPartitionDiscovery.parallelism": "8"},
    ),
    "key-counts": Tweak(
        "reads the previous value of each key that it writes to its state store, or writes again at a start, to count "
        "the keys",
        "counts no keys",
        "4 of 20 seconds of a start with 100 million keys",
        settings={"spark.sql.streaming.stateStore.rocksdb.trackTotalNumberOfRows": "false"},
    ),
    "snapshots": Tweak(
        "stores a snapshot of the state once a minute, so a start may repeat the changes of a minute",
        "stores one every 15 seconds, if there were ten micro-batches",
        "4 of 20 seconds of a start with 100 million keys",
        settings={"spark.sql.streaming.stateStore.maintenanceInterval": "15s"},
    ),
    "broadcast-blocks": Tweak(
        "allocates 4 MB for each of the four small broadcasts of a micro-batch",
        "allocates 64 KB",
        "with G1 in larger regions, 28 instead of 134 garbage collections in 65 micro-batches",
        settings={"spark.broadcast.blockSize": "64k"},
    ),
    COLLECTOR: Tweak(
        "collects garbage with G1, which makes the heap as large as it may be, and collects while it loads classes",
        "collects with the parallel collector in a heap that grows when a tenth of the time goes into collecting; the "
        "metaspace is larger. A collector that a user chooses stays",
        "0.6 of 2.7 GiB of a deduplication at work",
        java=(
            "-XX:+UseParallelGC",
            "-XX:GCTimeRatio=9",
            "-XX:MinHeapFreeRatio=10",
            "-XX:MaxHeapFreeRatio=30",
            "-Xms48m",
            "-XX:+UseAdaptiveSizePolicyWithSystemGC",
            "-XX:MetaspaceSize=256m",
        ),
    ),
    "idle-heap": Tweak(
        "keeps the largest heap that it ever needed",
        "collects garbage when a job has been idle for a minute, and gives memory back to the system",
        "200 of 570 MiB of the JVM of an idle job",
    ),
    "compilers": Tweak(
        "runs the optimizing compiler of the JVM, half of all work in a job's first minute",
        "does not for bounded input, but reserves as much room for compiled code as with that compiler; for unbounded "
        "input, it collects no profiles while that compiler is busy",
        "376 ms instead of 494 ms in the first 50 micro-batches of a bounded job",
    ),
    "logger-context": Tweak(
        "walks the stack for the configuration of its logger whenever it copies a node of a plan",
        "has one configuration",
        "part of 10 ms of planning",
        java=("-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector",),
    ),
    "class-path": Tweak(
        "searches 250 libraries, in no order, for the code of each function that it sends to tasks",
        "searches its own libraries first",
        "12 ms of planning",
    ),
    "class-archive": Tweak(
        "reads, checks and links 15,000 classes when it starts",
        "maps them from an archive, which `make setup` or the end of the first job makes",
        "5 of 18 seconds of a short job",
    ),
    "unix-sockets": Tweak(
        "talks to Python over TCP, where each stage waits for a delayed acknowledgement",
        "uses Unix domain sockets",
        "46 ms instead of 91 ms for an empty stage",
    ),
    "worker-python": Tweak(
        "imports `pyspark.zip` in Python workers, for which Python caches no bytecode",
        "imports the installed pyspark",
        "half a second of processor time per level of state when a job starts",
    ),
    "forked-python": Tweak(
        "starts Python and imports pyspark for each level of state of a query, to list its state variables, for each "
        "source that plans in Python, as Kafka does, and for the daemon of its workers",
        "forks a process that has imported it while Spark starts",
        "a tenth of a second per level of state when a job starts, a quarter per source, and most of a second of "
        "processor time for the daemon",
    ),
    "worker-daemon": Tweak(
        "imports what Python workers need in each of them",
        "imports it once, in the process that they are forked from",
        "a second of processor time for each worker but the first",
    ),
    "one-daemon": Tweak(
        "starts a daemon for the workers of stateful operators, and another one for those of other stages, because it "
        "shortens the stack traces of the latter",
        "shortens none, so there is one daemon, and stages share its memory",
        "half a second when a job starts, and 100 MiB",
        settings={"spark.sql.execution.pyspark.udf.simplifiedTraceback.enabled": "false"},
    ),
    KEPT_MEMORY: Tweak(
        "returns each buffer of a worker to the system, which clears it before its next use",
        "keeps up to 64 MB of them for the next micro-batch",
        "with `state-messages`, 13 to 18 % of the processor time of Nexmark's q9",
        settings={
            "spark.executorEnv.MALLOC_TRIM_THRESHOLD_": "67108864",
            "spark.executorEnv.MALLOC_MMAP_THRESHOLD_": "33554432",
            "spark.executorEnv._RJEM_MALLOC_CONF": "dirty_decay_ms:5000,muzzy_decay_ms:-1",
        },
    ),
    "checkpoint-manager": Tweak(
        "writes its checkpoint with Hadoop's `FileContext`",
        "uses `FileSystem`, which `local-files` speeds up",
        "see `local-files`",
        settings={
            "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        },
    ),
    # inside the JVM of such a Spark
    "local-files": Tweak(
        "starts the program `chmod` for each local file that it creates, and copies the state of a checkpoint when it "
        "starts",
        "sets the permissions in the JVM, and links the files of the checkpoint",
        "20 processes; a second at the start, and the disk, for each 2 GB of state",
    ),
    "hadoop-defaults": Tweak(
        "sends all options of Hadoop to the tasks, for each level of state",
        "omits the defaults of YARN and MapReduce",
        "two thirds of the size of the options",
    ),
    "session-options": Tweak(
        "generates code in threads that serve state to Python, in spite of `no-codegen`, because they have no session",
        "gives these threads the options of the session",
        "65 ms of processor time",
    ),
    "rule-counts": Tweak(
        "counts the runs of each planner rule, and adds up all counts before and after each plan",
        "counts nothing",
        "7 to 17 % of the time",
    ),
    "state-bytes": Tweak(
        "makes a text of the bytes of a state variable when Python reads it, which Python turns into bytes again",
        "sends the bytes",
        "1.5 of 20 seconds of a start with 100 million keys",
    ),
    "ui-listeners": Tweak(
        "records data for its web interface even if that is off",
        "records nothing then",
        "8 ms",
    ),
    # of a session that the user brings
    "coded-failures": Tweak(
        "logs the failure of a task three times, with its stack traces, in a session of yours",
        "omits failures that the job raises in Python with a code",
        "43 instead of 377 lines of the log in three jobs, the last of which fails",
    ),
    # of a cluster
    "lost-hosts": Tweak(
        "waits one to two minutes for a host that has lost power or network",
        "learns it from the driver, which connects to hosts regularly; see [clusters](cluster.md#when-a-host-dies)",
        "19 to 21 s instead of 105 to 117 s until a job continues",
    ),
    # of every job
    LAST_BATCH: Tweak(
        "does not say which micro-batch of bounded input is the last one, so the end of event time takes a query of "
        "its own if several tables fill more than one micro-batch",
        "counts the micro-batches that Spark will make of the files of each table",
        "a query of one micro-batch",
    ),
    "state-messages": Tweak(
        "copies what a worker stores six times, into one message after the other",
        "copies it three times",
        "half of the processor time that a worker takes to store 4 MB",
    ),
    "collect-async": Tweak(
        "reads 400 KB of its own code for each `collect`, to check what its functions capture",
        "collects the reports of sinks with `collectAsync`",
        "24 ms",
    ),
    "call-site": Tweak(
        "records the stack of its thread for each RDD and broadcast",
        "uses the name of the job instead",
        "10 ms of planning",
    ),
    "stored-state": Tweak(
        "takes the state of a changed plan from Python, a micro-batch like any other",
        "copies what stays as it is stored by itself, as it does for another parallelism",
        "a third of the time of `plan evolve`",
    ),
    "json-progress": Tweak(
        "passes a progress event to a `MetricsListener` field by field",
        "passes it as one text",
        "a thousand calls of the JVM",
    ),
}
"""Name to tweak, in the order of the documentation. Measurements are those of docs/decisions/0013."""

_failures: dict[str, str] = {}
"""Tweaks whose probe failed in this process, which has one JVM -> the reason."""
_successes: set[str] = set()
"""Tweaks whose probe passed."""


class Tweaks:
    """The tweaks of one job.

    Args:
        options: the options of the session.
        tell: receives a line for each tweak that is lost, and other notes; default: the logger ``stateplan``.

    Raises:
        OptionError: OPT105, :data:`OFF` has an unknown name.
    """

    def __init__(self, options: Mapping[str, str], tell: Callable[[str], None] | None = None) -> None:
        names = [name.strip() for name in options.get(OFF, "").split(",") if name.strip()]
        for name in names:
            if name not in TWEAKS and name != "all":
                raise OptionError(
                    "OPT105",
                    text=name,
                    key=OFF,
                    expected="names of tweaks, separated by commas, or all",
                    hint=nearest(name, TWEAKS),
                )
        self._off = frozenset(TWEAKS if "all" in names else names)
        self.tell = tell or logging.getLogger("stateplan").warning

    def on(self, name: str) -> bool:
        """Whether a tweak is neither turned off nor lost."""
        return name not in self._off and name not in _failures

    def attempt(self, name: str, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T | None:
        """The result of ``work``, which probes or applies a tweak; None if the tweak is off or ``work`` fails."""
        if not self.on(name):
            return None
        try:
            return work(*args, **kwargs)
        except Exception as cause:  # Spark's, Py4J's, or what Python says of a name that is gone
            self.lose(name, cause)
            return None

    def works(self, name: str, probe: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> bool:
        """Whether a tweak is on and its probe passes; the probe runs once per process."""
        if self.on(name) and name not in _successes:
            self.attempt(name, probe, *args, **kwargs)
            _successes.add(name)
        return self.on(name)

    def lose(self, name: str, cause: Exception | str) -> None:
        """Turns a tweak off for the rest of the process, and reports it once."""
        if name not in _failures:
            _failures[name] = reason(cause)
            self.tell(
                f"running without the Spark tweak '{name}', which this Spark does not support: {_failures[name]:.200}"
            )


def reason(cause: Exception | str) -> str:
    """The first line of an error, without Py4J's line about the call."""
    lines = [line.strip().removeprefix(": ") for line in str(cause).splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    return lines[0] if lines else type(cause).__name__
