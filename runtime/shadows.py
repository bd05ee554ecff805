"""What two plans of one job write to the same table, kept for a comparison: see :mod:`execnodes.shadows`.

Each micro-batch leaves a file for each plan, in a folder of the checkpoint. From time to time they are folded into one:
for a table with a key, it has the last change of each key by each plan; for another table, the rows that one plan has
inserted more often than the other one. So its size follows the rows that have changed or differ, not the time that the
job has run. If it is larger than :data:`MOST_BYTES` even so, the comparison of that table ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind, column
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, read_settled, write_whole
from stateplan.common.types import LogicalType
from stateplan.common.values.atomic import FieldStyle
from stateplan.connectors.formats.json_encode import JsonWriter
from stateplan.connectors.protocol import Sink
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.shadows import SIDES, Side, shadow_pairs
from stateplan.runtime.exchange import decode, encode
from stateplan.runtime.jobgraph import SinkSpec
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark.hadoop import CHECKPOINT_DIR, checkpoint_path

FOLDER = "shadow"
"""The folder of a checkpoint with what is compared."""
FILES = 64
"""How many files of micro-batches are folded at once, or fewer if they are large."""
MOST_BYTES = 128 << 20
"""The comparison of a table ends when its rows take more memory than this."""

_FOLD_BYTES = 32 << 20
_STYLE = FieldStyle(standard="SQL", decimals="plain", skip_nulls=False, null_key="LITERAL", null_literal="null")
_ADDITIONS = [int(RowKind.INSERT), int(RowKind.UPDATE_AFTER)]


@dataclass(frozen=True)
class ShadowSink(Sink):
    """Keeps what a plan writes to a table.

    Attributes:
        record: the record of the table.
        side: the plan.
        fields: the fields of the rows.
        key: the fields that distinguish rows; empty if rows are compared as a whole.
        folds: whether it folds the files of both plans.
    """

    record: ShadowRecord
    side: Side
    fields: tuple[tuple[str, LogicalType], ...]
    key: tuple[str, ...]
    folds: bool
    keeps_order = True

    def prepare(self, epoch: int) -> None:
        if self.folds:
            self.record.fold(epoch)

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        positions = [i for i, (name, _) in enumerate(self.fields) if name in self.key]
        key_frame = frame.select(pl.col(column(i)).alias(column(n)) for n, i in enumerate(positions))
        is_added = frame[KIND].is_in(_ADDITIONS) if KIND in frame.columns else pl.Series([True] * frame.height)
        columns = {
            "key": _texts(key_frame, [self.fields[i] for i in positions]) if positions else None,
            "row": _texts(frame, self.fields),
            "added": is_added,
        }
        return encode(pl.DataFrame({name: values for name, values in columns.items() if values is not None}))

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        if parts:
            self.record.add(self.side, epoch, decode(list(parts)))


def _texts(frame: pl.DataFrame, fields: Sequence[tuple[str, LogicalType]]) -> pl.Series:
    return JsonWriter(list(fields), _STYLE).objects(frame)


@dataclass(frozen=True)
class TableChanges:
    """What both plans have written to a table.

    Attributes:
        counts: changes by each plan.
        rows: with a key, ``key``, and for each plan ``row_old``, ``added_old``, ... of its last change, NULL for none.
            Without one, ``row``, and for each plan how often more than the other one it has inserted the row.
        end: the micro-batch at which the comparison ended; None if it has not.
    """

    counts: tuple[int, int] = (0, 0)
    rows: pl.DataFrame | None = None
    end: int | None = None

    def and_then(self, parts: Sequence[tuple[Side, pl.DataFrame]]) -> TableChanges:
        """With the changes of further micro-batches, in their order."""
        by_side = [[frame for side, frame in parts if side == own] for own in SIDES]
        old, new = (count + sum(frame.height for frame in f) for count, f in zip(self.counts, by_side, strict=True))
        if old + new == sum(self.counts):
            return self
        has_key = "key" in (parts[0][1] if self.rows is None else self.rows).columns
        rows = (_last_changes if has_key else _net_rows)(self.rows, by_side)
        return replace(self, counts=(old, new), rows=rows)


def _last_changes(rows: pl.DataFrame | None, by_side: Sequence[Sequence[pl.DataFrame]]) -> pl.DataFrame:
    last = []
    for side, frames in zip(SIDES, by_side, strict=True):
        names = {"key": pl.col("key"), "row": pl.col(f"row_{side}"), "added": pl.col(f"added_{side}")}
        before = [] if rows is None else [rows.select(**names).filter(pl.col("added").is_not_null())]
        empty = pl.DataFrame(schema={"key": pl.String, "row": pl.String, "added": pl.Boolean})
        changes = pl.concat([empty, *before, *(frame.select("key", "row", "added") for frame in frames)])
        changes = changes.unique("key", keep="last")
        last.append(changes.rename({"row": f"row_{side}", "added": f"added_{side}"}))
    return last[0].join(last[1], on="key", how="full", coalesce=True)


def _net_rows(rows: pl.DataFrame | None, by_side: Sequence[Sequence[pl.DataFrame]]) -> pl.DataFrame:
    weight = pl.when("added").then(1).otherwise(-1).cast(pl.Int64)
    none = pl.lit(0, pl.Int64)
    parts = [pl.DataFrame(schema={"row": pl.String, "old": pl.Int64, "new": pl.Int64}) if rows is None else rows]
    for side, frames in zip(SIDES, by_side, strict=True):
        for frame in frames:
            counts = {own: weight if own == side else none for own in SIDES}
            parts.append(frame.select("row", **counts))
    net = pl.concat(parts).group_by("row").agg(pl.sum("old"), pl.sum("new"))
    old, new = net["old"].to_numpy(), net["new"].to_numpy()
    common = np.where(np.sign(old) == np.sign(new), np.sign(old) * np.minimum(np.abs(old), np.abs(new)), 0)
    net = net.with_columns(pl.Series("old", old - common), pl.Series("new", new - common))
    return net.filter((pl.col("old") != 0) | (pl.col("new") != 0))


@dataclass(frozen=True)
class ShadowRecord:
    """The files of a table.

    Attributes:
        folder: with them.
    """

    folder: AnyPath

    def add(self, side: Side, epoch: int, changes: pl.DataFrame) -> None:
        """Keeps the changes of a micro-batch, in place of those of an attempt at it. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if not any(True for _ in self.folder.glob("ended-*")):
            write_whole(self.folder / f"{side}-{epoch:010d}.arrow", encode(changes))

    def fold(self, epoch: int) -> None:
        """Folds the files of micro-batches before ``epoch``, if there are many. They have been committed, so they do
        not run again. Raises OSError."""
        files = [file for file in self._files() if file.epoch < epoch]
        sizes = [file.path.stat().st_size for file in files if file.fold is None]
        if len(sizes) < FILES and sum(sizes) < _FOLD_BYTES:
            return
        changes = self._read(files)
        last = max(file.epoch for file in files)
        if changes.rows is not None and changes.rows.estimated_size() > MOST_BYTES:
            write_whole(self.folder / f"ended-{last:010d}", "")
            changes = replace(changes, rows=changes.rows.clear())
        target = _Fold(last, changes.counts)
        write_whole(self.folder / target.name, encode(pl.DataFrame() if changes.rows is None else changes.rows))
        for file in list(self._all_files()):
            if file.epoch <= last and file.path.name != target.name:
                file.path.unlink(missing_ok=True)

    def read(self) -> TableChanges:
        """What both plans have written. The job may write meanwhile. Raises OSError."""
        return read_settled(lambda: self._read(self._files()))

    def _read(self, files: Sequence[_File]) -> TableChanges:
        end = next((int(path.name.partition("-")[2]) for path in self.folder.glob("ended-*")), None)
        changes = TableChanges(end=end)
        whole_files = [file for file in files if file.fold is not None]
        if whole_files and whole_files[-1].fold is not None:
            rows = decode([whole_files[-1].path.read_bytes()])
            changes = TableChanges(whole_files[-1].fold.counts, rows if rows.width else None, end)
        parts = [(file.side, decode([file.path.read_bytes()])) for file in files if file.side is not None]
        return changes.and_then(parts)

    def _files(self) -> list[_File]:
        """The files in the order of their micro-batches, without those that have been folded."""
        files = sorted(self._all_files(), key=lambda file: file.epoch)
        last = max((file.epoch for file in files if file.fold is not None), default=-1)
        return [file for file in files if file.epoch > last or (file.fold is not None and file.epoch == last)]

    def _all_files(self) -> Iterator[_File]:
        for path in self.folder.glob("*-*.arrow"):
            word, epoch, *counts = path.stem.split("-")
            side: Side | None = next((side for side in SIDES if side == word), None)
            fold = None if side is not None else _Fold(int(epoch), (int(counts[0]), int(counts[1])))
            yield _File(path, int(epoch), side, fold)


@dataclass(frozen=True)
class _Fold:
    """The name of a file with folded changes: up to which micro-batch, and how many they were."""

    epoch: int
    counts: tuple[int, int]

    @property
    def name(self) -> str:
        return f"folded-{self.epoch:010d}-{self.counts[0]}-{self.counts[1]}.arrow"


@dataclass(frozen=True)
class _File:
    """A file of a table: of a plan in a micro-batch, or of folded changes."""

    path: AnyPath
    epoch: int
    side: Side | None
    fold: _Fold | None


def record_of(checkpoint: AnyPath, number: int) -> ShadowRecord:
    """The files of the sinks of this number among the pairs of a plan."""
    return ShadowRecord(checkpoint / FOLDER / str(number))


def record_folder(options: Mapping[str, str], name: str) -> AnyPath:
    """The folder below which a job keeps records beside its state: its checkpoint, else a temporary one.

    Args:
        options: of the session.
        name: of a temporary folder.
    """
    path = options.get(CHECKPOINT_DIR)
    return checkpoint_path(path, options) if path else scratch(name)


def shadow_sinks(
    graph: ExecGraph, options: Mapping[str, str], sinks: Mapping[int, SinkSpec]
) -> tuple[dict[int, SinkSpec], dict[int, SinkSpec]]:
    """What is compared of a job with a shadow.

    Args:
        graph: the plan.
        options: the options of the session.
        sinks: by node, all of the plan.

    Returns:
        By node, the sinks, each of which says while which plans run it writes, and what gets their rows for the
        comparison, while both run.
    """
    writers: dict[int, SinkSpec] = {}
    taps: dict[int, SinkSpec] = {}
    for number, pair in enumerate(shadow_pairs(graph)):
        record = record_of(record_folder(options, FOLDER), number)
        for side, sink in zip(SIDES, (pair.old, pair.new), strict=True):
            if sink is None:
                continue
            folds = side == "new" or pair.new is None
            writer, spec = ShadowSink(record, side, sink.written_fields, pair.key, folds), sinks[sink.id]
            writers[sink.id] = replace(spec, during=("both", "old") if side == "old" else ("new",))
            taps[sink.id] = replace(
                spec,
                name=f"{spec.name} of the {side} plan",
                writer=writer,
                uid=f"{spec.uid}-shadow",
                node=-1 - sink.id,
                during=("both",),
            )
    return writers, taps
