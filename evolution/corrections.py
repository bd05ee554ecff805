"""Corrections of what an old plan has written: after them, a sink holds what the new plan would have written.

Both plans run once more over the history, and what they write is kept in files. A job with a checkpoint of its own
writes the difference to the sink. So each correction is written exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import polars as pl

from stateplan.common.changelog import RowKind
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, sorted_paths
from stateplan.common.small_frames import stack
from stateplan.connectors.protocol import InstantSource, Sink
from stateplan.connectors.splits import InstantSplit, Split
from stateplan.runtime.exchange import decode, encode
from stateplan.runtime.jobgraph import JobGraph, Pipeline, SourceSpec, ToSink
from stateplan.runtime.kernels.common.key_ids import key_ids, net_rows, signs, with_kind
from stateplan.runtime.spark.checkpoint_files import INSTANTS

_ROWS = 1 << 20
"""At most this number of corrections is written in a micro-batch of the job that writes them."""


@dataclass(frozen=True)
class Recorder(Sink):
    """Keeps what is written, a file for each micro-batch.

    Attributes:
        folder: the folder of the files.
        node: the sink in its plan.
    """

    folder: AnyPath
    node: int
    keeps_order = True

    def write(self, frame: pl.DataFrame, epoch: int, part: str) -> bytes:
        return encode(frame)

    def commit(self, parts: Sequence[bytes], epoch: int) -> None:
        if parts:
            (self.folder / _name(self.node, epoch)).write_bytes(encode(decode(list(parts))))


def recorded_changes(folder: AnyPath, node: int) -> pl.DataFrame | None:
    """What a sink was given, as changes in their order; None for nothing."""
    files = sorted_paths(folder.glob(f"{node}-*.arrow"))
    return decode([file.read_bytes() for file in files]) if files else None


def _name(node: int, number: int) -> str:
    return f"{node}-{number:010d}.arrow"


def corrections(
    old: pl.DataFrame | None, new: pl.DataFrame | None, key: Sequence[str], update_before: bool
) -> pl.DataFrame | None:
    """The changes that turn the rows of one changelog into those of another one.

    Args:
        old, new: the changelogs, with columns ``c0``, ``c1``, ..., and ``kind`` where not all are insertions; None for
            one without changes.
        key: columns of the primary key; empty for a table without one.
        update_before: whether the row before an update is wanted.

    Returns:
        The changes, those of a row one after the other, without ``kind`` if all are insertions; None for none.
    """
    sides = [(_left(rows, key), sign) for rows, sign in ((old, -1), (new, 1)) if rows is not None and rows.height]
    if not sides:
        return None
    names = sides[0][0].drop("kind", strict=False).columns
    rows = stack([frame.select(names) for frame, _ in sides])
    change = np.concatenate([_signs(frame) * sign for frame, sign in sides])
    ids = key_ids(rows, names)
    remaining_rows = net_rows(ids.codes, change, ids.count)
    if remaining_rows is not None:
        rows, change = rows[remaining_rows], change[remaining_rows]
    if not rows.height:
        return None
    groups = key_ids(rows, list(key) or names).codes
    order = np.lexsort((change, groups))
    rows, change, groups = rows[order], change[order], groups[order]
    if (change > 0).all():
        return rows
    kinds = np.where(change > 0, RowKind.INSERT.value, RowKind.DELETE.value).astype(np.int8)
    if not key:
        return with_kind(rows, kinds)
    updated = groups[1:] == groups[:-1]
    kinds[1:][updated] = RowKind.UPDATE_AFTER.value
    kinds[:-1][updated] = RowKind.UPDATE_BEFORE.value
    changes = with_kind(rows, kinds)
    return changes if update_before else changes.filter(changes["kind"] != RowKind.UPDATE_BEFORE.value)


def _left(changes: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """Of changes to a table with a key, the last one of each row, if the row is there then."""
    if not key:
        return changes
    codes = key_ids(changes, list(key)).codes
    last = np.full(int(codes.max()) + 1, -1, np.int64)
    np.maximum.at(last, codes, np.arange(len(codes)))
    changes = changes[np.sort(last[last >= 0])]
    is_present = _signs(changes) > 0
    return changes.filter(pl.Series(is_present)).drop("kind", strict=False)


def _signs(changes: pl.DataFrame) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    row_signs = signs(changes)
    return np.ones(changes.height, np.int64) if row_signs is None else row_signs


@dataclass(frozen=True)
class Corrections(InstantSource):
    """The corrections of a sink, as a source: a micro-batch for each file.

    Attributes:
        files: with the changes.
    """

    files: tuple[AnyPath, ...]

    def instants(self) -> list[int]:
        return list(range(len(self.files)))

    def read(self, split: Split) -> Iterator[pl.DataFrame]:
        assert isinstance(split, InstantSplit)
        if split.at < len(self.files):
            yield decode([self.files[split.at].read_bytes()])


def write_files(folder: AnyPath, node: int, changes: pl.DataFrame) -> tuple[AnyPath, ...]:
    """Writes corrections of a sink into files for :class:`Corrections`. Raises OSError."""
    files = []
    for number, start in enumerate(range(0, changes.height, _ROWS)):
        files.append(folder / _name(node, number))
        files[-1].write_bytes(encode(changes[start : start + _ROWS]))
    return tuple(files)


def correcting(job: JobGraph, files: Mapping[int, tuple[AnyPath, ...]]) -> JobGraph:
    """A job that only writes corrections to the sinks of another one.

    Args:
        job: the other one.
        files: by node of the sink, its corrections.
    """
    sources = tuple(
        SourceSpec(
            f"corrections-{sink.uid}",
            sink.name,
            "corrections",
            Corrections(files[sink.node]),
            Pipeline((), (ToSink(number),)),
            sink.node,
            INSTANTS,
        )
        for number, sink in enumerate(job.sinks)
        if sink.node in files
    )
    return replace(job, sources=sources, operators=(), readers=(), order=(), open_ended=True)
