"""Which micro-batch a job has begun last, and what the checkpoint held by then: ``progress.json`` of a checkpoint.

Spark takes its part of a checkpoint for what it finds there. Where a file or a folder of it was removed, or replaced by
an older copy, it begins again from there, and the job would read input again and continue with other state. So each
micro-batch that begins is recorded outside of Spark's part, with checksums of the logs that it builds on.
``stateplan.json`` says that there must be a record, and up to which micro-batch at least.

Checkpoints of versions without a record continue, and get one with their next start.

Codes: CKPT005, CKPT014, CKPT016.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any

from pydantic import TypeAdapter, ValidationError

from stateplan.common.disk import full_disk
from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, write_whole
from stateplan.connectors.sink_epochs import input_digest
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.spark.log_sums import LogSums

RECORD = "progress.json"
LAST_EPOCH = "reached"
"""The fact of ``stateplan.json`` that there must be a record: the last micro-batch that had begun when the last job
started, -1 for none."""
_SAVEPOINT = "savepoint"
"""The fact that a folder is a savepoint, which gets it after it was written."""


@dataclass(frozen=True)
class Begun:
    """A micro-batch that has begun.

    Attributes:
        epoch: its number.
        input: digest of what it reads.
        logs: what Spark had written.
        ttls: how often ``ttl.json`` had been written.
        watermarks: the last micro-batch that ``watermarks.json`` knew; -1 for none.
    """

    epoch: int
    input: str
    logs: LogSums
    ttls: int = 0
    watermarks: int = -1


@dataclass(frozen=True)
class _Content:
    """What the file says.

    Attributes:
        job: id of the checkpoint. The record of another one counts for nothing.
        facts: digests of what ``stateplan.json`` may say: before a start that adopts a plan, and after it.
        begun: the last micro-batch; None before the first.
    """

    job: str
    facts: tuple[str, ...] = ()
    begun: Begun | None = None


_CONTENT = TypeAdapter(_Content)


@dataclass
class BatchRecord:
    """The file of a checkpoint.

    Attributes:
        folder: the folder of the checkpoint.
        exists: whether there is one.
    """

    folder: AnyPath
    exists: bool
    _content: _Content = field(repr=False)

    @staticmethod
    def of(folder: AnyPath, job: str) -> BatchRecord:
        """That of the checkpoint with the id ``job``. Raises CheckpointError CKPT005, the file is damaged."""
        path = folder / RECORD
        try:
            text = path.read_text() if path.exists() else ""
            if not text:
                return BatchRecord(folder, False, _Content(job))
            document = json.loads(text)
            if document["sum"] != _sum(document["held"]):
                raise ValueError("its checksum is another one")
            content = _CONTENT.validate_python(document["held"])
        except (OSError, ValueError, TypeError, KeyError, ValidationError) as cause:
            raise CheckpointError("CKPT005.damaged_file", file=path, why=f"{type(cause).__name__}: {cause}") from cause
        return BatchRecord(folder, True, content) if content.job == job else BatchRecord(folder, False, _Content(job))

    @property
    def last(self) -> int:
        """The last micro-batch that has begun; -1 for none."""
        return -1 if self._content.begun is None else self._content.begun.epoch

    def adopt(self, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """``stateplan.json`` is about to be written anew.

        Raises:
            RunError: RUN031, the disk is full.
            OSError: the file cannot be written.
        """
        self._write(replace(self._content, facts=(_digest(before), _digest(after))))

    def begin(self, epoch: int, spark: SparkCheckpoint, ttls: int, watermarks: int) -> str:
        """Records that a micro-batch begins, before anything of it is written; nothing for one that is repeated.

        Args:
            epoch: the epoch of the micro-batch.
            spark: what Spark has written.
            ttls, watermarks: as :attr:`Begun.ttls`, :attr:`Begun.watermarks`.

        Returns:
            The digest of what the micro-batch reads.

        Raises:
            RunError: RUN031, the disk is full.
            OSError, ValueError: a file cannot be read or written.
        """
        entry, before = (spark.offset_log / str(epoch)).read_bytes(), self._content.begun
        logs = (LogSums() if before is None else before.logs).at(epoch, entry, spark)
        batch = Begun(epoch, input_digest(entry), logs, ttls, watermarks)
        if batch != before:
            self._write(replace(self._content, facts=self._content.facts[-1:], begun=batch))
        return batch.input

    def _write(self, content: _Content) -> None:
        path, data = self.folder / RECORD, _CONTENT.dump_python(content, mode="json")
        try:
            write_whole(path, json.dumps({"sum": _sum(data), "held": data}) + "\n")
        except OSError as error:
            raise full_disk(error, path) or error from None
        self._content, self.exists = content, True

    def check(self, spark: SparkCheckpoint, facts: Mapping[str, Any], ttls: int, watermarks: int | None) -> None:
        """Compares the parts of the checkpoint with the record.

        Args:
            spark: what Spark has written.
            facts: what ``stateplan.json`` says.
            ttls: as :attr:`Begun.ttls`.
            watermarks: as :attr:`Begun.watermarks`; None if the file is missing or damaged, which a job that needs it
                reports.

        Raises:
            CheckpointError: CKPT014, CKPT016, they differ.
            OSError: a file cannot be read.
        """
        required_batch, last = facts.get(LAST_EPOCH), self._content.begun
        if required_batch is None:  # a version without a record has written last
            return
        if self.last < required_batch or (facts["layouts"] and not self.exists):
            raise self._lost_file_error(RECORD, required_batch)
        if last is None:
            return
        last_planned, last_done = spark.last_planned, spark.last_done
        if last_planned < last.epoch or last_done < last.epoch - 1:
            raise CheckpointError(
                "CKPT016", folder=self.folder, epoch=last.epoch, knows=_knows(last_planned, last_done)
            )
        for file, complete in (
            ("stateplan.json", not {_digest(facts), _former_digest(facts)}.isdisjoint(self._content.facts)),
            ("ttl.json", ttls >= last.ttls),
            ("watermarks.json", watermarks is None or watermarks >= last.watermarks),
        ):
            if not complete:
                raise self._lost_file_error(file, last.epoch)
        last.logs.check(spark)

    def _lost_file_error(self, file: str, epoch: int) -> CheckpointError:
        return CheckpointError("CKPT016.lost_file", folder=self.folder, file=file, epoch=epoch)


def _knows(last_planned: int, last_done: int) -> str:
    if last_planned < 0 and last_done < 0:
        return "has none"
    done_text = "has finished none" if last_done < 0 else f"has finished micro-batch {last_done} last"
    return f"{done_text}, and planned {'none' if last_planned < 0 else f'micro-batch {last_planned} last'}"


def _digest(facts: Mapping[str, Any]) -> str:
    """The digest of what ``stateplan.json`` says."""
    lasting_facts = {key: value for key, value in facts.items() if key != _SAVEPOINT}
    return hashlib.sha256(json.dumps(lasting_facts, sort_keys=True).encode()).hexdigest()[:16]


def _former_digest(facts: Mapping[str, Any]) -> str:
    """The same, in earlier releases."""
    return _digest({key: value for key, value in facts.items() if key != LAST_EPOCH})


def _sum(content: Any) -> int:
    """The checksum of what the file says."""
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
