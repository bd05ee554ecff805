"""Turns exceptions of Spark into coded errors."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.execnodes.errors import RunError, StateplanError, find_encoded
from stateplan.execnodes.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.execnodes.runtime.spark.damage import Stateful, explain_damage
from stateplan.execnodes.runtime.spark.session import keep_log

_WORKER_GONE = ("IOException: Broken pipe", "SocketException: Connection reset", "EOFException", "exited unexpectedly")
"""Spark's messages when the process at the other end has ended."""


def is_of_spark(failure: Exception) -> bool:
    """Whether Spark raised it, or Py4J in between."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return isinstance(failure, (PySparkException, Py4JError))


def explained(failure: Exception, checkpoint: SparkCheckpoint, operators: Sequence[Stateful]) -> StateplanError:
    """The error for a failed query: the coded error in Spark's message, a damaged file of the checkpoint, or RUN001
    with the most specific line of the message.

    Args:
        checkpoint: of the query.
        operators: the stateful ones.
    """
    text = str(failure)
    found = find_encoded(text) or explain_damage(text, checkpoint, operators)
    if found is not None:
        return found
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    cause = next((line for line in reversed(lines) if line.startswith(("Caused by:", "pyspark.errors"))), "")
    python = [line for line in lines if "Error:" in line or "Exception:" in line]
    detail = (python[-1] if python else cause or (lines[0] if lines else "no message"))[:500]
    if any(sign in detail for sign in _WORKER_GONE):
        return RunError("RUN001.worker", detail=detail)
    log = keep_log()
    return RunError("RUN001" if log is None else "RUN001.log", detail=detail, log=log)
