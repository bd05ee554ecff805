"""Which micro-batch a job has begun last, and what Spark had written by then: ``progress.json`` of a checkpoint.

Spark takes its part of a checkpoint for what it finds there. Where a file or a folder of it was removed, or replaced by
an older copy, it begins again from there, and the job would read input again and go on with other state. So each
micro-batch that begins is recorded outside of Spark's part, with checksums of the logs that it builds on.
``stateplan.json`` says from which micro-batch on there must be a record.

Checkpoints of versions without a record go on, and get one with their next micro-batch.

Codes: CKPT005, CKPT014, CKPT016.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stateplan.execnodes.connectors.noted import input_digest
from stateplan.execnodes.disk import full_disk
from stateplan.execnodes.errors import CheckpointError
from stateplan.execnodes.paths import AnyPath, write_whole
from stateplan.execnodes.runtime.spark.checkpoint_files import SparkCheckpoint, content_of, damage_of

RECORD = "progress.json"


@dataclass(frozen=True)
class Begun:
    """A micro-batch that has begun.

    Attributes:
        epoch: its number.
        input: digest of what it reads.
        place: where the checkpoint was.
        sums: checksums of Spark's logs by their places in Spark's folder: of this micro-batch and the one before, and
            of all files that sources know.
        ttls: of each state, in milliseconds, by its operator and number.
    """

    epoch: int
    input: str
    place: str
    sums: Mapping[str, int]
    ttls: Mapping[str, int]


@dataclass
class BatchRecord:
    """The file of a checkpoint.

    Attributes:
        folder: of the checkpoint.
        job: id of the checkpoint. The record of another one counts for nothing.
        last: what it says; None for a checkpoint without one.
    """

    folder: AnyPath
    job: str
    last: Begun | None = field(default=None)

    @staticmethod
    def of(folder: AnyPath, job: str) -> BatchRecord:
        """Reads it. Raises CheckpointError CKPT005, the file is damaged."""
        path = folder / RECORD
        try:
            held = json.loads(path.read_text()) if path.exists() else {}
            begun = None
            if held and held["sum"] != _sum(held["last"]):
                raise ValueError("its checksum is another one")
            if held and held["job"] == job:
                found = held["last"]
                sums = {str(name): int(value) for name, value in found["sums"].items()}
                ttls = {str(name): int(value) for name, value in found["ttls"].items()}
                begun = Begun(int(found["epoch"]), str(found["input"]), str(found["place"]), sums, ttls)
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as cause:
            raise CheckpointError("CKPT005.damaged", file=path, why=f"{type(cause).__name__}: {cause}") from cause
        return BatchRecord(folder, job, begun)

    def begin(self, epoch: int, spark: SparkCheckpoint, ttls: Mapping[str, int]) -> str:
        """Records that a micro-batch begins, before anything of it is written; nothing for one that is repeated.

        Args:
            epoch: of the micro-batch.
            spark: what Spark has written.
            ttls: in this micro-batch, as :attr:`Begun.ttls`.

        Returns:
            The digest of what the micro-batch reads.

        Raises:
            RunError: RUN031, the disk is full.
            OSError: a file cannot be read or written.
        """
        data = (spark.offset_log / str(epoch)).read_bytes()
        before = {} if self.last is None else self.last.sums
        sums = dict(_sums(spark, epoch, data, before))
        begun = Begun(epoch, input_digest(data), str(self.folder), sums, dict(ttls))
        if begun != self.last:
            path = self.folder / RECORD
            try:
                last = vars(begun)
                write_whole(path, json.dumps({"job": self.job, "sum": _sum(last), "last": last}) + "\n")
            except OSError as error:
                raise full_disk(error, path) or error from None
            self.last = begun
        return begun.input

    def check(self, spark: SparkCheckpoint, reached: int | None, settled: str | None) -> None:
        """Compares Spark's part of the checkpoint with the record.

        Args:
            spark: what Spark has written.
            reached: a micro-batch that the job has begun for certain; None where nobody noted one.
            settled: where the checkpoint was when its last job started.

        Raises:
            CheckpointError: CKPT014, CKPT016, they differ.
            OSError: a file cannot be read.
        """
        planned, done, last = spark.last_planned, spark.last_done, self.last
        begun = max(-1 if reached is None else reached, -1 if last is None else last.epoch)
        if reached is not None and (last is None or last.epoch < reached):
            raise CheckpointError("CKPT016.record", folder=self.folder, file=RECORD, epoch=reached)
        if planned < max(begun, done):
            knows = "has none" if planned < 0 else f"ends with micro-batch {planned}"
            raise CheckpointError("CKPT016", folder=self.folder, epoch=max(begun, done), knows=knows)
        if last is None:
            return
        if done < last.epoch - 1:
            knows = "has finished none" if done < 0 else f"has finished micro-batch {done} last"
            raise CheckpointError("CKPT016", folder=self.folder, epoch=last.epoch, knows=knows)
        places = {str(self.folder), *([settled] if settled else ())}
        for name, value in last.sums.items():
            self._check_log(spark, name, value, places)

    def _check_log(self, spark: SparkCheckpoint, name: str, value: int, places: set[str]) -> None:
        """Checks one of the files of which there are checksums; ``places`` are those where the checkpoint may have been
        since."""
        assert self.last is not None
        path = spark.folder / name
        kind, number = name.split("/")[0], path.name
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            if kind == "commits" and int(number) < spark.last_done:
                return  # a later one says the same
            if kind == "sources" and _is_compacted(path):
                return
            raise _damaged(path, name, "is missing") from None
        moved = kind == "sources" and {self.last.place} != places
        if all(zlib.crc32(form) != value for form in (spark.as_at(self.last.place, data, places) if moved else [data])):
            raise _damaged(path, name, damage_of(path) or "is not what the job wrote: it was changed or replaced")

    def check_ttls(self, ttls: Mapping[str, int]) -> None:
        """Compares TTLs in the last micro-batch, as the checkpoint has them, with the record. States that only one of
        them has count for nothing: the plan may be another one.

        Raises:
            CheckpointError: CKPT016.
        """
        if self.last is None:
            return
        held = self.last.ttls
        if any(held[name] != ttl for name, ttl in ttls.items() if name in held) or (held and not ttls):
            raise CheckpointError("CKPT016.record", folder=self.folder, file="ttl.json", epoch=self.last.epoch)


def _sum(last: Mapping[str, object]) -> int:
    """The checksum of what the file says."""
    return zlib.crc32(json.dumps(last, sort_keys=True).encode())


def _damaged(path: AnyPath, name: str, why: str) -> CheckpointError:
    hint = "restore the checkpoint directory from a copy, or start from an empty one"
    return CheckpointError("CKPT014", path=path, why=why, content=content_of(name), hint=hint)


def _sums(spark: SparkCheckpoint, epoch: int, data: bytes, before: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Checksums of the logs that a micro-batch builds on, those in ``before`` without reading their files again."""
    yield f"offsets/{epoch}", zlib.crc32(data)
    for name in (f"offsets/{epoch - 1}", f"commits/{epoch - 1}", "metadata"):
        with contextlib.suppress(FileNotFoundError):
            yield name, before[name] if name in before else zlib.crc32((spark.folder / name).read_bytes())
    for name in spark.source_logs(data, before):
        with contextlib.suppress(FileNotFoundError):  # an entry that was compacted meanwhile
            yield name, before[name] if name in before else zlib.crc32((spark.folder / name).read_bytes())


def _is_compacted(entry: AnyPath) -> bool:
    """Whether the log of a source has an entry in a later file, which holds all before it."""
    number = int(entry.name.split(".")[0])
    return any(int(p.name.split(".")[0]) > number for p in entry.parent.glob("[0-9]*.compact"))
