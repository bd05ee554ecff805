"""The process that Spark forks its Python workers from, on this machine: PySpark's, with what workers import imported.

PySpark's daemon imports nothing for its workers, because it cannot know which libraries start threads that a fork does
not have. Every worker then takes more than a second of processor time for imports. Those here start threads that only
wait, for memory to be given back and files to be removed, and a fork of theirs works without them; nothing is computed
in this process, so Polars has no other threads.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os

MODULE = "stateplan.runtime.spark.worker_daemon"

_AHEAD = (
    "pyspark.worker",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "stateplan.runtime.spark.query",
    "stateplan.runtime.sinks",
    "stateplan.runtime.worker",
)


def import_ahead() -> None:
    """Imports what workers will. What cannot be imported, the worker that needs it will report."""
    for name in _AHEAD:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    with contextlib.suppress(ImportError):
        from numpy import random

        os.register_at_fork(after_in_child=random.seed)  # else all workers would draw the same numbers
    gc.freeze()


if __name__ == "__main__":
    from pyspark.daemon import manager

    import_ahead()
    manager()
