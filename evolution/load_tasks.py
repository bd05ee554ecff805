"""What the tasks do that load state into a new checkpoint."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.evolution.conversion import NewRows, StateLoad
from stateplan.runtime.exchange import Blob, Rows, StateRows, StateTime, blob_batch, encode, split
from stateplan.runtime.hashing import slot_label
from stateplan.runtime.inspect.stored_state import SlotStates
from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.state.keyed_state import KeyedState
from stateplan.runtime.state.runs import HASH, TOMBSTONE, merge_runs
from stateplan.runtime.worker import with_coded_errors

if TYPE_CHECKING:
    import pyarrow as pa

_BLOB_BYTES = 64 << 20
"""About so many bytes of rows go into a blob."""


@dataclass(frozen=True)
class Receivers:
    """The slots of the operators of the new plan.

    Attributes:
        firsts: the first slot of each.
        key_groups: the key groups of the state.
    """

    firsts: tuple[int, ...]
    key_groups: int

    def label(self, operator: int, group: int) -> int:
        """Spark's grouping key of a key group of an operator."""
        return slot_label(self.firsts[operator] + group)


@dataclass(frozen=True)
class SendState:
    """Reads state of the old plan, and sends what becomes of it to the operators of the new one: for ``mapInArrow``.

    Attributes:
        slots: puts the old state together.
        receivers: the operators of the new plan.
        loads: per operator of the new plan where its state comes from; None for one that begins empty.
    """

    slots: SlotStates
    receivers: Receivers
    loads: tuple[StateLoad | None, ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return with_coded_errors(self._batches)(batches)

    def _batches(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for operator, group, state in self.slots.states(batches):
            tables: dict[str, pl.DataFrame] | None = None
            for number, load in enumerate(self.loads):
                for origin, conversion in () if load is None else load.conversions:
                    if origin != operator:
                        continue
                    seq = f"{operator:04d}\0{group:06d}"
                    if tables is None:
                        stored_tables = self.slots.operators[operator].tables
                        tables = {t.name: rows for t in stored_tables if (rows := current_rows(t, state)).height}
                    for new_rows in conversion(tables, state.time):
                        yield from (blob_batch([blob]) for blob in self._blobs(number, group, new_rows, seq))

    def _blobs(self, operator: int, group: int, new_rows: NewRows, seq: str) -> Iterator[Blob]:
        groups = (
            [(group, new_rows.rows)]
            if new_rows.keys is None
            else split(new_rows.rows, new_rows.keys, self.receivers.key_groups)
        )
        for receiver, rows in groups:
            label = self.receivers.label(operator, receiver)
            parts = _at_times(rows) if new_rows.is_input else [(0, rows)]
            for now, part in parts:
                step = max(1, part.height * _BLOB_BYTES // max(1, int(part.estimated_size())))
                for number, start in enumerate(range(0, part.height, step)):
                    data = encode(part[start : start + step])
                    some = min(step, part.height - start)
                    content = Rows(some, data) if new_rows.is_input else StateRows(new_rows.number, data)
                    yield Blob(label, new_rows.number, f"{seq}\0{number:06d}", now, content)


def _at_times(rows: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """The rows by the time of their last access, ms, in its order; without that time."""
    for part in rows.sort(ACCESS_TIME, maintain_order=True).partition_by(ACCESS_TIME, maintain_order=True):
        yield int(part[ACCESS_TIME][0]), part.drop(ACCESS_TIME)


@dataclass(frozen=True)
class SendTimes:
    """Sends to the operators of the new plan how far event time has come: for ``mapInArrow``.

    Attributes:
        receivers: the operators of the new plan.
        times: by number of the operator, the JSON of its event time.
    """

    receivers: Receivers
    times: Mapping[int, str]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                yield blob_batch(
                    [
                        Blob(self.receivers.label(operator, group), 0, "", 0, StateTime(text))
                        for operator, text in self.times.items()
                        for group in range(self.receivers.key_groups)
                    ]
                )


def current_rows(table: StateTable, state: KeyedState) -> pl.DataFrame:
    """The newest version of every row of a table that is not deleted, with the time of its last access."""
    return newest_rows(table, [frame for _, frame in state.runs(table)])


def newest_rows(table: StateTable, runs: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """As :func:`current_rows`, of runs from old to new."""
    if not runs:
        return pl.DataFrame()
    return merge_runs(table, runs, 0, 0, oldest=True).drop(HASH, TOMBSTONE)
