"""Spark's own ``dropDuplicates`` as the streaming query of :mod:`.peers`; RocksDB holds its state."""

from __future__ import annotations

import sys

from pyspark.sql import DataFrame, SparkSession


def _print(rows: DataFrame, _: int) -> None:
    for row in rows.collect():
        print(f"+I[{row.order_id}, {row.sent}]")
    sys.stdout.flush()


def main(folder: str, checkpoint: str) -> None:
    """Runs until it is killed."""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config(
            "spark.sql.streaming.stateStore.providerClass",
            "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
        )
        .getOrCreate()
    )
    arrivals = spark.readStream.schema("order_id BIGINT, sent BIGINT").json(folder)
    writer = arrivals.dropDuplicates(["order_id"]).writeStream.foreachBatch(_print)
    writer.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
