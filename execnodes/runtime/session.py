"""The Spark session a plan runs in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["session", "FIXED", "DEFAULTS"]

FIXED = {
    "spark.sql.streaming.stateStore.providerClass":
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings the runtime depends on."""

DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.checkpointFileManagerClass":
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
    "spark.log.level": "ERROR",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
}
"""Settings that a user's ``spark.*`` options override."""


def session(options: Mapping[str, str]) -> SparkSession:
    """The running Spark session, or a new local one with ``parallelism.default`` cores.

    Args:
        options: session options; ``spark.*`` are handed to Spark.
    """
    import os
    import sys

    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    parallelism = options.get("parallelism.default", "2")
    builder = SparkSession.builder.appName(options.get("pipeline.name", "stateplan"))
    running = SparkSession.getActiveSession()
    if running is None:
        builder = builder.master(options.get("spark.master", f"local[{parallelism}]"))
    settings = {**DEFAULTS, "spark.sql.shuffle.partitions": parallelism,
                **{k: v for k, v in options.items() if k.startswith("spark.")}, **FIXED}
    for key, value in settings.items():
        if running is None:
            builder = builder.config(key, value)
        elif key.startswith("spark.sql.") and running.conf.isModifiable(key):
            running.conf.set(key, value)
    return running if running is not None else builder.getOrCreate()
