"""What a micro-batch costs the driver with many partitions and key groups, and what it sends.

    python -m benchmarks.cluster_size
    python -m benchmarks.cluster_size --partitions 200 --key-groups 1000 --rows 2000 --batches 6

One aggregation over recorded arrivals, on two local cores: the tasks run one after the other, so that their time is of
no interest here. The driver's part is.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

from stateplan import TableEnvironment
from stateplan.runtime import spark_run
from stateplan.runtime.spark.collect import run_batch
from stateplan.runtime.spark.query import Shipment


def measure(partitions: int, key_groups: int, rows: int, batches: int) -> dict[str, float]:
    """The medians over the micro-batches after the first."""
    seen: dict[str, list[float]] = {name: [] for name in ("driver_ms", "reports", "report_bytes")}
    graphs: list[int] = []
    in_spark = [0.0]
    on_batch, ship = spark_run.Run.on_batch, Shipment.__init__

    def timed_run(*arguments: Any) -> list[bytes]:
        began = time.perf_counter()
        packed = run_batch(*arguments)
        in_spark[0] = time.perf_counter() - began
        seen["reports"].append(len(packed))
        seen["report_bytes"].append(sum(map(len, packed)))
        return packed

    def timed_batch(self: Any, frame: Any, batch: int) -> None:
        began = time.perf_counter()
        on_batch(self, frame, batch)
        seen["driver_ms"].append(1000 * (time.perf_counter() - began - in_spark[0]))

    def shipped(self: Any, *arguments: Any) -> None:
        ship(self, *arguments)
        graphs.append(len(self.payload))

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with (folder / "arrivals.json").open("w") as out:
            for minute in range(batches):
                for n in range(rows):
                    row = {"@at": minute * 60_000, "id": (n * 7919 + minute) % (2 * rows), "v": n}
                    out.write(json.dumps(row) + "\n")
        options = {
            "parallelism.default": str(partitions),
            "pipeline.max-parallelism": str(key_groups),
            "execution.checkpointing.dir": str(folder / "checkpoint"),
            "spark.master": "local[2]",
        }
        env = TableEnvironment.create(options)
        table = f"'connector' = 'replay', 'path' = '{folder}/arrivals.json', 'format' = 'json'"
        env.execute_sql(f"CREATE TABLE arrivals (id BIGINT, v BIGINT) WITH ({table})")
        env.execute_sql("CREATE TABLE totals (id BIGINT, n BIGINT, v BIGINT) WITH ('connector' = 'blackhole')")
        with (
            patch.object(spark_run, "run_batch", timed_run),
            patch.object(spark_run.Run, "on_batch", timed_batch),
            patch.object(Shipment, "__init__", shipped),
        ):
            result = env.execute_sql("INSERT INTO totals SELECT id, COUNT(*), SUM(v) FROM arrivals GROUP BY id")
            result.wait()
        assert result.job is not None
        record = result.job.metrics[-1]
    found = {name: statistics.median(values[1:]) for name, values in seen.items()}
    sent = sum(figures.get("bytes_out", 0) for figures in record.operators.values())
    return {**found, "graph_bytes": graphs[0], "blob_bytes": sent, "record_bytes": len(json.dumps(record.to_json()))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int)
    parser.add_argument("--key-groups", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--batches", type=int, default=6)
    given = parser.parse_args()
    cases = [(given.partitions, given.key_groups, given.rows)] if given.partitions else []
    cases = cases or [(2, 8, 2000), (40, 200, 2000), (200, 1000, 2000), (200, 1000, 20_000)]
    print("partitions key groups   rows | driver ms  reports  their bytes  blob bytes  graph bytes  metrics record")
    for partitions, key_groups, rows in cases:
        f = measure(partitions, key_groups, rows, given.batches)
        print(
            f"{partitions:10} {key_groups:10} {rows:6} | {f['driver_ms']:9.1f} {f['reports']:8.0f} "
            f"{f['report_bytes']:12.0f} {f['blob_bytes']:11.0f} {f['graph_bytes']:12.0f} {f['record_bytes']:15.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
