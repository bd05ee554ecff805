"""Queries of the benchmark in Spark's own operators, on a warm Spark whose state is in RocksDB.

A line on standard input names a file with the query, the folder of its input, its number of micro-batches, and a folder
to work in; the answer is that of :mod:`benchmarks.engines`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

ORDERS = "order_id BIGINT, user_id BIGINT, product_id BIGINT, num INT, ts TIMESTAMP_NTZ"
LOGISTICS = "order_id BIGINT, target STRING, ts TIMESTAMP_NTZ"


def _session() -> SparkSession:
    state = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "6g")
        .config("spark.sql.streaming.stateStore.providerClass", state)
        .config("spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled", "true")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )


def _query(spark: SparkSession, name: str, folder: str, slices: int) -> DataFrame:
    def table(path: str, schema: str) -> DataFrame:
        reader = spark.readStream.schema(schema).option("timestampNTZFormat", "yyyy-MM-dd HH:mm:ss")
        return (reader.option("maxFilesPerTrigger", "2") if slices > 1 else reader).json(f"{folder}/{path}")

    orders = table("orders", ORDERS)
    if name == "filter":
        return orders.where("num > 50").selectExpr("order_id", "user_id", "product_id", "num * 2 AS num")
    if name == "dedup":
        return orders.dropDuplicates(["order_id"])
    return orders.join(table("logistics", LOGISTICS), "order_id")


def _run(spark: SparkSession, name: str, folder: str, slices: int, work: Path) -> str:
    with tempfile.TemporaryDirectory(dir=work, prefix="checkpoints-") as checkpoint:
        began = time.perf_counter()
        writer = _query(spark, name, folder, slices).writeStream.format("noop").outputMode("append")
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        query.awaitTermination()
        wall = (time.perf_counter() - began) * 1000
    return f"RESULT {wall:.0f} {wall:.0f}"


def main() -> None:
    """Answers until standard input ends."""
    spark = _session()
    for line in sys.stdin:
        name, folder, slices, work = Path(line.strip()).read_text().split("\n")[:4]
        try:
            answer = _run(spark, name, folder, int(slices), Path(work))
        except Exception as error:  # whatever Spark says
            answer = "FAILED " + str(error).replace("\n", " ")
        print(answer, flush=True)


if __name__ == "__main__":
    main()
