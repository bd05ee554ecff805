"""The loss of Spark's JVM, for example because memory ran out. This process can start another JVM.

Codes: RUN011, RUN019.
"""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import RunError
from stateplan.common.failure_reasons import links, module_of

if TYPE_CHECKING:
    from pyspark import SparkContext

_END = 3.0
"""Seconds in which the process of Spark ends after its connections have."""
_NO_MEMORY = (3, 52)
"""The statuses with which a JVM ends under ``-XX:+ExitOnOutOfMemoryError``, and Spark when it notices first."""
_NO_FOLDER = 53
"""The status with which Spark ends where it can create no temporary folder. Source: Spark's ``SparkExitCode``."""


def jvm_loss(wait: float = 0.0) -> RunError | None:
    """The error for jobs whose Spark this process had started and that has ended by itself; None while it runs.

    Args:
        wait: the longest wait for the end of the process, in seconds. Its connections break first.
    """
    process = _process()
    if process is None:
        return None
    try:
        status = process.wait(wait)
    except subprocess.TimeoutExpired:
        return None
    if status == _NO_FOLDER:
        return RunError("RUN011.no_folder")
    return RunError("RUN019", how="Java ran out of memory" if status in _NO_MEMORY else f"status {status}")


def jvm_process() -> int | None:
    """The id of the process of Spark that this process has started; None without one."""
    process = _process()
    return None if process is None else process.pid


def _process() -> subprocess.Popen[bytes] | None:
    """The process of Spark that this process has started."""
    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    process: subprocess.Popen[bytes] | None
    process = getattr(SparkContext._gateway, "proc", None)  # noqa: SLF001 - PySpark has no public access
    return process


def jvm_loss_behind(failure: BaseException) -> RunError | None:
    """:func:`jvm_loss`, for a failure of something in Spark: its process ends a moment after its connections have."""
    is_disconnect = any(
        type(link).__name__ == "Py4JNetworkError" or isinstance(link, ConnectionError) for link in links(failure)
    )
    return jvm_loss(_END if is_disconnect else 0.0)


def forget_dead_jvm() -> bool:
    """Whether the JVM was gone; Spark can be started again then. PySpark would continue with the dead one forever."""
    if jvm_loss() is None:
        return False
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # PySpark keeps all of these in private names, and forgets them only by asking the JVM.
    context = SparkContext._active_spark_context  # noqa: SLF001 - see above
    if context is not None:
        context._jsc = None  # noqa: SLF001 - sessions of a context without one are not used again
    SparkContext._active_spark_context = None  # noqa: SLF001 - see above
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001 - see above
    SparkSession._instantiatedSession = SparkSession._activeSession = None  # noqa: SLF001 - see above
    return True


def expect_end(context: SparkContext) -> None:
    """Lets the end of the JVM be an ordinary event for the server to which it sends figures. The server would print a
    traceback. It still prints one for any other exception."""
    server: Any = getattr(context, "_accumulatorServer", None)
    if server is None:
        return
    report = server.handle_error

    def report_others(request: object, address: object) -> None:
        if not isinstance(sys.exc_info()[1], (EOFError, ConnectionError)):
            report(request, address)

    server.handle_error = report_others


def is_of_spark(failure: BaseException) -> bool:
    """Whether Spark raised an exception, or Py4J in between."""
    return module_of(failure) in ("pyspark", "py4j")
