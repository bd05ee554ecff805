"""Rate at which state is made from history, next to a bounded job of the same plan over the same input.

    python -m benchmarks.backfill [--keys 500000] [--parallelism 2] [--rounds 2]

Counts ten rows for each key. Then, in turns, in one Spark,

- a plan that sums them runs as a bounded job;
- ``evolve`` makes a checkpoint for it, whose state comes from the history of all rows.

Prints the seconds and the largest memory of the processes, and the ratios of the rates.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import defaultdict
from pathlib import Path

from benchmarks.evolve import plan, rows
from benchmarks.harness import PeakMemory, run, work_folder, write_files


def main(keys: int = 500_000, parallelism: int = 2, rounds: int = 2) -> None:
    with work_folder("backfill") as work:
        data, checkpoint, target = (Path(work) / name for name in ("input", "checkpoint", "target"))
        write_files(data, (part for seed in range(10) for part in rows(keys, seed)))
        table = "src /*+ OPTIONS('source.max-files-per-trigger' = '1000') */"
        counts, sums = (f"SELECT k, {call} FROM {table} GROUP BY k" for call in ("COUNT(*)", "SUM(v)"))
        plan(data, checkpoint, counts, parallelism).execute().wait()
        seconds: dict[str, list[float]] = defaultdict(list)
        for number in range(2 * rounds):
            kind = ("job", "backfill")[(number + number // 2) % 2]
            shutil.rmtree(target, ignore_errors=True)
            changed = plan(data, target, sums, parallelism)
            with PeakMemory(os.getpid()) as peak:
                began = time.monotonic()
                if kind == "job":
                    changed.execute().wait()
                else:
                    changed.evolve(checkpoint)
                seconds[kind].append(time.monotonic() - began)
            print(f"{kind}: {seconds[kind][-1]:.1f} s, {peak.bytes / 2**20:,.0f} MiB", flush=True)
        ratios = [job / backfill for job, backfill in zip(seconds["job"], seconds["backfill"], strict=True)]
        pairs = ", ".join(f"{ratio:.2f}" for ratio in ratios)
        print(f"{10 * keys:,} rows; rate of a backfill to that of a job, in pairs: {pairs}")
        print(f"of the fastest: {min(seconds['job']) / min(seconds['backfill']):.2f}")


if __name__ == "__main__":
    run(main, __doc__)
