"""The tweaks: everything that a job makes Spark do differently, only to be faster.

Most depend on undocumented parts of Spark, which any release may change. Each tweak is probed before it is used. If
the probe fails, for any reason, the job runs without the tweak and reports it once. The option :data:`OFF` turns
tweaks off.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from stateplan.execnodes.errors import OptionError, nearest

P = ParamSpec("P")
T = TypeVar("T")

OFF = "spark.stateplan.tweaks.off"
"""The option with the names of tweaks to turn off, comma-separated, or ``all``."""


@dataclass(frozen=True)
class Tweak:
    """One tweak.

    Attributes:
        about: what Spark does without the tweak, and with it.
        gain: the measured saving per micro-batch, with ten rows through three levels of state on two cores.
        settings: settings of Spark; ``spark.*`` options override them.
        java: options of the JVM.
    """

    about: str
    gain: str
    settings: Mapping[str, str] = field(default_factory=dict)
    java: tuple[str, ...] = ()


TWEAKS: dict[str, Tweak] = {
    # settings of a Spark that is started for the job
    "no-codegen": Tweak(
        "Spark generates code for each plan. A micro-batch has a few hundred blobs as rows, too few for that to pay off. "
        "No code is generated.",
        "35 ms of processor time",
        {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
    ),
    "no-plan-reuse": Tweak(
        "Spark looks for equal parts of a plan, which the plan of a job never has. It does not look for them.",
        "9 ms of planning",
        {"spark.sql.exchange.reuse": "false", "spark.sql.execution.reuseSubquery": "false"},
    ),
    "source-log": Tweak(
        "Spark keeps its log of source files for ten minutes and lists all of it in every micro-batch. It keeps only "
        "the last 100 micro-batches, which it needs.",
        "7 % of planning in the first 200 micro-batches, more later",
        {"spark.sql.streaming.fileSource.log.cleanupDelay": "0"},
    ),
    "broadcast-blocks": Tweak(
        "Spark allocates 4 MB for each of the four small broadcasts of a micro-batch. With the tweak, 64 KB.",
        "with `collector`, 28 garbage collections instead of 134 in 65 micro-batches",
        {"spark.broadcast.blockSize": "64k"},
    ),
    "collector": Tweak(
        "G1 may start a collection for every buffer of 1 MB. Its regions are made large enough for these, and loading "
        "Spark's classes starts no collection.",
        "see `broadcast-blocks`",
        java=("-XX:G1HeapRegionSize=4m", "-XX:MetaspaceSize=256m"),
    ),
    "compilers": Tweak(
        "The JVM's optimizing compiler is half of all work in a job's first minute. A job over bounded input goes "
        "without it; one over unbounded input keeps no profiles for it while it is busy.",
        "376 ms instead of 494 ms in the first 50 micro-batches of a bounded job",
    ),
    "logger-context": Tweak(
        "Log4j walks the stack for its configuration whenever Spark copies a node of a plan. It has one configuration.",
        "part of 10 ms of planning",
        java=("-Dlog4j2.contextSelector=org.apache.logging.log4j.core.selector.BasicContextSelector",),
    ),
    "class-path": Tweak(
        "Spark looks for the code of each function that it sends to tasks in 250 libraries, in no order. Its own "
        "libraries come first.",
        "12 ms of planning",
    ),
    "unix-sockets": Tweak(
        "Spark talks to Python over TCP, where each stage waits for a delayed acknowledgement. It uses Unix domain "
        "sockets.",
        "46 ms instead of 91 ms for an empty stage",
    ),
    "worker-python": Tweak(
        "Spark puts its `pyspark.zip` in front of the path of Python workers, of which Python caches no compiled "
        "modules. Workers take the installed pyspark.",
        "half a second of processor time for each level of state when a job starts",
    ),
    "checkpoint-manager": Tweak(
        "Spark writes its checkpoint through Hadoop's `FileContext`. It uses `FileSystem`, which `local-files` speeds "
        "up.",
        "see `local-files`",
        {
            "spark.sql.streaming.checkpointFileManagerClass": "org.apache.spark.sql.execution.streaming.checkpointing."
            "FileSystemBasedCheckpointFileManager"
        },
    ),
    # inside the JVM of such a Spark
    "local-files": Tweak(
        "Hadoop starts the program `chmod` for every file that it makes on a local disk. The JVM sets the permissions.",
        "20 fewer processes per micro-batch",
    ),
    "hadoop-defaults": Tweak(
        "Spark sends Hadoop's options to tasks for each level of state. Defaults of YARN and MapReduce are left out.",
        "options of a third of the size",
    ),
    "session-options": Tweak(
        "The threads that serve state to Python have no session and generate code in spite of `no-codegen`. They get "
        "the options of the session.",
        "65 ms of processor time",
    ),
    "rule-counts": Tweak(
        "Spark counts the runs of each planner rule, and adds up all counts before and after every plan. It counts "
        "nothing.",
        "7 to 17 % of the time",
    ),
    "ui-listeners": Tweak(
        "Spark records data for its web interface even if that is off. It records nothing then.",
        "8 ms",
    ),
    # of every job
    "collect-async": Tweak(
        "For each `collect`, Spark reads 400 KB of its own code to check what its functions capture. The reports of "
        "sinks are collected with `collectAsync`.",
        "24 ms",
    ),
    "call-site": Tweak(
        "Spark records the stack of its thread for each RDD and broadcast. It uses the name of the job instead.",
        "10 ms of planning",
    ),
    "json-progress": Tweak(
        "PySpark reads a progress event from the JVM field by field. A `MetricsListener` reads it as one text.",
        "a thousand calls of the JVM",
    ),
}
"""Name to tweak, in the order of the documentation. Measurements are those of docs/decisions/0013."""

_lost: dict[str, str] = {}
"""Tweaks whose probe failed in this process, which has one JVM -> the reason."""
_passed: set[str] = set()
"""Tweaks whose probe passed."""


class Tweaks:
    """The tweaks of one job.

    Args:
        options: of the session.
        tell: receives a line for each tweak that is lost; default: the logger ``stateplan``.

    Raises:
        OptionError: OPT105, :data:`OFF` has an unknown name.
    """

    def __init__(self, options: Mapping[str, str], tell: Callable[[str], None] | None = None) -> None:
        names = [name.strip() for name in options.get(OFF, "").split(",") if name.strip()]
        for name in names:
            if name not in TWEAKS and name != "all":
                raise OptionError("OPT105.tweaks", name=name, key=OFF, hint=nearest(name, TWEAKS))
        self._off = frozenset(TWEAKS if "all" in names else names)
        self._tell = tell or logging.getLogger("stateplan").warning

    def on(self, name: str) -> bool:
        """Whether a tweak is neither turned off nor lost."""
        return name not in self._off and name not in _lost

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
        if self.on(name) and name not in _passed:
            self.attempt(name, probe, *args, **kwargs)
            _passed.add(name)
        return self.on(name)

    def lose(self, name: str, cause: Exception | str) -> None:
        """Turns a tweak off for the rest of the process, and reports it once."""
        if name not in _lost:
            _lost[name] = reason(cause)
            self._tell(
                f"running without the Spark tweak '{name}', which this Spark does not support: {_lost[name]:.200}"
            )


def reason(cause: Exception | str) -> str:
    """The first line of an error, without Py4J's line about the call."""
    lines = [line.strip().removeprefix(": ") for line in str(cause).splitlines() if line.strip()]
    if lines and lines[0].startswith("An error occurred while calling"):
        del lines[0]
    return lines[0] if lines else type(cause).__name__
