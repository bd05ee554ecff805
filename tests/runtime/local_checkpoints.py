"""Checkpoints of plans that run without Spark: after each micro-batch, their state is written as Spark writes it."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

from stateplan.plans.document import PlanDocument
from stateplan.runtime.checkpoint.directory import Checkpoint, Continuation
from stateplan.runtime.hashing import partition_of
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.spark.checkpoint_files import spark_operator
from stateplan.runtime.translate import translate
from tests.runtime.store_files import changelog, manifest_entry, run_entry, snapshot
from tests.support.local import LocalRun

_FIRST = "start"


class StateWriter:
    """Writes the state of a run to a checkpoint.

    Args:
        folder: the checkpoint.
        job: the job, with its slots.
        partitions: Spark's partitions of state.
        snapshots: every so many versions there is a snapshot.
    """

    def __init__(self, folder: Path, job: JobGraph, partitions: int = 2, snapshots: int = 4) -> None:
        self.folder, self.job, self.partitions, self.snapshots = folder, job, partitions, snapshots
        self.stored: dict[tuple[int, int], dict[bytes, bytes]] = defaultdict(dict)
        self.lineage: dict[tuple[int, int], list[tuple[int, str]]] = {}
        for name in ("commits", "offsets"):
            (folder / "spark" / name).mkdir(parents=True, exist_ok=True)
        (folder / "splits" / "instants").mkdir(parents=True, exist_ok=True)
        for number in range(job.levels):
            for partition in range(partitions):
                snapshot(self._folder(number, partition), 0, _FIRST)
                self.lineage[number, partition] = [(0, _FIRST)]

    def _folder(self, number: int, partition: int) -> Path:
        return self.folder / "spark" / "state" / str(number) / str(partition)

    def commit(self, batch: int, local: LocalRun, at: int) -> None:
        """Writes what a micro-batch has left, and that it is done."""
        now: dict[tuple[int, int], dict[bytes, bytes]] = defaultdict(dict)
        for slot, store in local.stores.items():
            if store.text is None or slot not in local.slots:
                continue
            level = self.job.operators[local.slots[slot][0]].level
            place = spark_operator(level, self.job.levels), partition_of(slot, self.partitions)
            now[place].update([manifest_entry(slot, store.text)])
            now[place].update(run_entry(slot, run, data) for run, data in store.values.items())
        writers: dict[str, list[list[str]]] = {}
        for place in sorted(self.lineage):
            writer = f"w{batch}-{place[0]}-{place[1]}"
            self._write(place, batch + 1, writer, now[place])
            writers.setdefault(str(place[0]), []).append([writer])
        instants = self.folder / "splits" / "instants"
        (instants / f"{batch:010d}_{at}").write_text("x")
        facts = {"nextBatchWatermarkMs": 0, "stateUniqueIds": writers}
        (self.folder / "spark" / "commits" / str(batch)).write_text(f"v2\n{json.dumps(facts)}")
        lines = ["v1", json.dumps({"batchTimestampMs": at})]
        lines += [f'{{"logOffset":{batch}}}'] * max(1, len(self.job.sources))
        (self.folder / "spark" / "offsets" / str(batch)).write_text("\n".join(lines))

    def _write(self, place: tuple[int, int], version: int, writer: str, now: dict[bytes, bytes]) -> None:
        before, folder = self.stored[place], self._folder(*place)
        changes: dict[bytes, bytes | None] = {k: v for k, v in now.items() if before.get(k) != v}
        changes |= dict.fromkeys(set(before) - set(now))
        lineage = self.lineage[place]
        name = f"{version}_{writer}.changelog"
        (folder / name).write_bytes(changelog(changes, lineage, plain=version % 2 == 0))
        if version % self.snapshots == 0:
            snapshot(folder, version, writer, [before, changes])
            lineage = []
        self.lineage[place] = [*lineage, (version, writer)]
        self.stored[place] = now

    def lose(self, batch: int) -> None:
        """Removes a micro-batch, as Spark does with old ones."""
        for name in ("commits", "offsets"):
            (self.folder / "spark" / name / str(batch)).unlink()


def begin(folder: Path, plan: PlanDocument, key_groups: int = 8) -> tuple[LocalRun, StateWriter]:
    """A run of a plan on an empty checkpoint, and what writes its state there."""
    options = {"execution.checkpointing.dir": str(folder), "pipeline.max-parallelism": str(key_groups)}
    opened = Checkpoint.open(options, plan.text, plan.graph, lambda _: Continuation.same(plan.graph))
    try:
        job = opened.fit(translate(plan.graph, options, key_groups))
        opened.adopt()
    finally:
        opened.close()
    return LocalRun(job), StateWriter(folder, job)
