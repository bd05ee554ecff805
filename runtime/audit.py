"""An audit of state: expired rows that later rows needed, as a record in the checkpoint.

With ``table.exec.state.audit``, operators remember expired rows (:mod:`runtime.state.lost_rows`). If a row needs one of
them, the operator sends a record of it to a sink of its own, which keeps it with the checkpoint. Like the rows of other
sinks, a record is written once, however often its micro-batch is repeated.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import polars as pl

from stateplan.common.changelog import column
from stateplan.common.frozen_dataclass import FrozenDataclass
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, read_settled, write_whole
from stateplan.common.settings import value
from stateplan.common.types import LogicalType
from stateplan.connectors.formats.json_encode import JsonWriter
from stateplan.connectors.protocol import Sink
from stateplan.runtime.exchange import decode, encode
from stateplan.runtime.kernel import ACCESS_TIME, Frames, StateTable
from stateplan.runtime.operators.base import Stateful
from stateplan.runtime.side_outputs import ROW_STYLE
from stateplan.runtime.state.lost_rows import Audit
from stateplan.runtime.state.misses import NOBODY, Miss
from stateplan.runtime.state_types import column_type

MODE, ONE_IN, RETENTION = (
    "table.exec.state.audit",
    "table.exec.state.audit.one-in",
    "table.exec.state.audit.retention",
)
FOLDER = "audit"
"""The folder of a checkpoint with the records."""
FILES = 64
"""How many files of micro-batches are put together at once."""

RECORD: Mapping[str, pl.DataType] = {
    "uid": pl.String(),
    "table": pl.String(),
    "slot": pl.Int32(),
    "use": pl.String(),
    "key": pl.String(),
    "row": pl.String(),
    "accessed_at": pl.Int64(),
    "expired_at": pl.Int64(),
    "needed_at": pl.Int64(),
    "input": pl.Int32(),
    "by": pl.String(),
    "fraction": pl.Float64(),
}
"""The columns of a record: the uid of the operator, the name of the state table and the number of its state, what the
row was needed for, its key and the row as JSON, times in ms since 1970, the input and the row that needed it as JSON,
and the share of keys that are followed. Files have the micro-batch too."""
BATCH = "batch"


def audit_of(options: Mapping[str, str]) -> Audit | None:
    """The audit that a session has; None for none."""
    mode = value(options, MODE)
    if mode == "OFF":
        return None
    return Audit(1 if mode == "ALL" else int(value(options, ONE_IN)), int(value(options, RETENTION)))


@dataclass(frozen=True)
class _Columns(FrozenDataclass):
    """Columns of a frame, and the fields that they are as JSON."""

    columns: tuple[str, ...]
    fields: tuple[tuple[str, LogicalType], ...]

    @cached_property
    def _writer(self) -> JsonWriter:
        return JsonWriter(list(self.fields), ROW_STYLE)

    def objects(self, frame: pl.DataFrame) -> pl.Series:
        """The rows as JSON."""
        if not self.columns:
            return pl.Series(["{}"] * frame.height, dtype=pl.String)
        return self._writer.objects(frame.select(pl.col(n).alias(column(i)) for i, n in enumerate(self.columns)))


@dataclass(frozen=True)
class OperatorAudit:
    """What an operator records.

    Attributes:
        sink: number of the sink.
        uid: of the operator.
        audit: which rows it remembers.
        key_columns, row_columns: by state table.
        inputs: by input; None for one whose rows are combined before they reach the operator.
    """

    sink: int
    uid: str
    audit: Audit
    key_columns: Mapping[str, _Columns]
    row_columns: Mapping[str, _Columns]
    inputs: tuple[_Columns | None, ...]

    @staticmethod
    def of(sink: int, uid: str, audit: Audit, part: Stateful, inputs: Sequence[LogicalType]) -> OperatorAudit:
        """What the operator of a node records.

        Args:
            inputs: the types of the rows of its inputs.
        """
        rows = {table.name: _state_columns(part, table, inputs) for table in part.kernel.tables}
        key_columns = {}
        for table in part.kernel.tables:
            own = rows[table.name]
            places = [i for i, name in enumerate(own.columns) if name in table.lookup]
            key_columns[table.name] = _Columns(
                tuple(own.columns[i] for i in places), tuple(own.fields[i] for i in places)
            )
        fields: list[_Columns | None] = [None] * len(inputs)
        if part.schemas is None and not part.before:
            for number, row in enumerate(inputs):
                names = tuple(column(i) for i in range(len(row.fields)))
                fields[number] = _Columns(names, tuple((f.name, f.type) for f in row.fields))
        return OperatorAudit(sink, uid, audit, key_columns, rows, tuple(fields))

    def records(self, misses: Sequence[Miss], inputs: Frames) -> pl.DataFrame:
        """The records of a step.

        Args:
            inputs: its frames of changes.
        """
        return pl.concat([self._records(miss, inputs) for miss in misses])

    def _records(self, miss: Miss, inputs: Frames) -> pl.DataFrame:
        name, rows = miss.table.name, miss.rows
        times = rows[ACCESS_TIME]
        inputs_of_rows = [number if number != NOBODY else None for number in miss.inputs.tolist()]
        by: list[str | None] = [None] * rows.height
        for number, columns in enumerate(self.inputs):
            at = np.flatnonzero(miss.inputs == number)
            if columns is not None and len(at):
                texts = columns.objects(inputs[number][miss.positions[at]]).to_list()
                for place, text in zip(at.tolist(), texts, strict=True):
                    by[place] = text
        values: dict[str, pl.Expr | pl.Series] = {
            "uid": pl.lit(self.uid),
            "table": pl.lit(name),
            "slot": pl.lit(miss.table.slot),
            "use": pl.Series(miss.uses.tolist(), dtype=pl.String),
            "key": self.key_columns[name].objects(rows),
            "row": self.row_columns[name].objects(rows),
            "accessed_at": times,
            "expired_at": (times + miss.ttl).clip(upper_bound=miss.at),  # the TTL may have been shorter
            "needed_at": pl.lit(miss.at),
            "input": pl.Series(inputs_of_rows, dtype=pl.Int32),
            "by": pl.Series(by, dtype=pl.String),
            "fraction": pl.lit(1 / self.audit.one_in),
        }
        return rows.select(values[n].alias(column(i)).cast(dtype) for i, (n, dtype) in enumerate(RECORD.items()))


def _state_columns(part: Stateful, table: StateTable, inputs: Sequence[LogicalType]) -> _Columns:
    """The columns of a state table that mean something to people."""
    labels = part.kernel.labels(table)
    types = {name: column_type(table, name, table.schema[name], inputs) for name in labels}
    return _Columns(tuple(labels), tuple((label, types[name]) for name, label in labels.items()))


@dataclass(frozen=True)
class AuditSink(Sink):
    """Keeps the records of a job.

    Attributes:
        record: where.
        retention: how long, ms; 0 is as long as the checkpoint.
    """

    record: AuditRecord
    retention: int

    def prepare(self, epoch: int) -> None:
        self.record.tidy(epoch, self.retention)

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        names = {column(i): name for i, name in enumerate(RECORD)}
        return encode(
            frame.select(pl.col(c).alias(name) for c, name in names.items()).with_columns(
                pl.lit(epoch, pl.Int64).alias(BATCH)
            )
        )

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        if parts:
            self.record.add(epoch, decode(list(parts)))


@dataclass(frozen=True)
class _File:
    """A file of records: of the micro-batches ``first`` to ``last``."""

    path: AnyPath
    first: int
    last: int


@dataclass(frozen=True)
class AuditRecord:
    """The files of records of a job.

    Attributes:
        folder: with them.
    """

    folder: AnyPath

    def add(self, epoch: int, records: pl.DataFrame) -> None:
        """Keeps the records of a micro-batch, in place of those of an attempt at it. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / _name(epoch, epoch), encode(records))

    def tidy(self, epoch: int, retention: int) -> None:
        """Puts the files of micro-batches before ``epoch`` together, if there are many: these have been committed, and
        do not run again. Drops what is ``retention`` ms older than the newest record. Raises OSError."""
        files = [file for file in self._files() if file.last < epoch]
        if sum(file.first == file.last for file in files) < FILES:
            return
        records = pl.concat([decode([file.path.read_bytes()]) for file in files], how="diagonal")
        if retention:
            records = records.filter(pl.col("needed_at") > pl.col("needed_at").max() - retention)
        target = self.folder / _name(files[0].first, files[-1].last)
        write_whole(target, encode(records))
        for file in files:
            if file.path.name != target.name:
                file.path.unlink(missing_ok=True)

    def size(self) -> int:
        """Bytes of all files. Raises OSError."""
        return sum(file.path.stat().st_size for file in self._files())

    def read(self) -> pl.DataFrame:
        """The records, in the order of their micro-batches: :data:`RECORD` and :data:`BATCH`. The job may write
        meanwhile. Raises OSError."""
        return read_settled(self._read)

    def latest(self, count: int) -> list[dict[str, Any]]:
        """The last records, the newest first. Raises OSError."""
        records: list[dict[str, Any]] = []
        for file in reversed(self._files()):
            if len(records) >= count:
                break
            with contextlib.suppress(FileNotFoundError):  # put together since it was listed
                records += decode([file.path.read_bytes()]).tail(count).to_dicts()[::-1]
        return records[:count]

    def _read(self) -> pl.DataFrame:
        empty = pl.DataFrame(schema={**RECORD, BATCH: pl.Int64()})
        files = (decode([file.path.read_bytes()]) for file in self._files())
        return pl.concat([empty, *files], how="diagonal")

    def _files(self) -> list[_File]:
        """The files in the order of their micro-batches, without those whose records another one has too."""
        files: list[_File] = []
        for file in sorted(self._all_files(), key=lambda f: (f.first, -f.last)):
            if not files or file.last > files[-1].last:
                files.append(file)
        return files

    def _all_files(self) -> Iterator[_File]:
        if self.folder.is_dir():
            for path in self.folder.glob("*-*.arrow"):
                first, _, last = path.stem.partition("-")
                yield _File(path, int(first), int(last))


def _name(first: int, last: int) -> str:
    return f"{first:010d}-{last:010d}.arrow"


def record_of(checkpoint: AnyPath) -> AuditRecord:
    """The records of the job of a checkpoint."""
    return AuditRecord(checkpoint / FOLDER)


def audit_sink(options: Mapping[str, str], checkpoint: AnyPath) -> AuditSink:
    """What keeps the records of a job.

    Args:
        options: of the session.
        checkpoint: its folder.
    """
    return AuditSink(record_of(checkpoint), int(value(options, RETENTION)))
