"""Changelog normalization: upserts as changes of the last row of every key.

Source of the semantics: Flink's ``ProcTimeDeduplicateKeepLastRowFunction`` over changes
(``DeduplicateFunctionHelper.processLastRowOnChangelog``) and its mini-batch form, which looks only at the last change
of a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind
from stateplan.common.lazy_dataclass import dataclass
from stateplan.functions.rex import Rex
from stateplan.runtime.kernel import Frames, KeyedKernel, StateTable, Step
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    ids_of,
    is_retraction,
    positions,
    truth,
    unchanged,
    with_kind,
    with_stamps,
)
from stateplan.runtime.transforms.calc import CalcTransform


@dataclass(frozen=True)
class ChangelogNormalizeKernel(KeyedKernel):
    """Of the changes of a key in a micro-batch only the last counts, unless every version does: +I and +U set the key's
    row, -U and -D delete it.

    A row that does not meet the condition deletes too. Of a deleting row only the key is looked at: what is emitted
    comes from the state. Deleting a key that is not there does nothing, and is counted with a TTL. A row equal to the
    one before emits nothing with TTL 0, and -U and +U as usual with a TTL (so that operators behind are refreshed too).

    Attributes:
        generate_update_before: emit -U.
        condition: rows to keep; None for all.
        time_zone: the time zone of the session, for the condition.
        every_version: emit the rows that a key has for a part of a micro-batch too.
    """

    generate_update_before: bool
    condition: Rex | None = None
    time_zone: str = "UTC"
    every_version: bool = False

    def with_every_version(self) -> ChangelogNormalizeKernel:
        return replace(self, every_version=True)

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        return (StateTable("changelogNormalizeState", 0, self._keys, self._keys, self._columns),)

    @cached_property
    def _test(self) -> CalcTransform | None:
        return None if self.condition is None else CalcTransform((self.condition,), None, self.time_zone)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        frame, before = inputs[0], state[0]
        ids, (state_codes, codes) = ids_of((before, frame), self._keys)
        last = positions(codes, ids.count)
        rows = np.arange(frame.height) if self.every_version else np.sort(last[last >= 0])
        final = rows == last[codes[rows]]
        old_rows = positions(state_codes, ids.count)[codes[rows]]
        changes = frame[rows]
        retractions = is_retraction(changes)
        new = changes.drop(KIND, strict=False)
        is_kept = np.ones(len(rows), bool) if retractions is None else ~retractions
        if self._test is not None and is_kept.any():
            passing = np.flatnonzero(is_kept)
            is_kept[passing] = truth(self._test(new[passing], now)["c0"])
        coming = np.flatnonzero(is_kept & final)
        upserts = with_stamps(new[coming], now) if len(coming) else None
        filtered_rows = np.flatnonzero(~is_kept & final & (old_rows >= 0))
        deletes = before[list(self._keys)][old_rows[filtered_rows]] if len(filtered_rows) else None
        missed_retractions = (
            self._missed_retractions(frame, ids.first - before.height) if ttl[0] and self.condition is None else 0
        )
        known_rows, old = before[new.columns], old_rows
        if self.every_version:
            old = self._rows_replaced(codes, is_kept, old_rows, before.height)
            known_rows = pl.concat([known_rows, new], rechunk=True)
        return Step(self._output(new, known_rows, is_kept, old, ttl[0]), [upserts], [deletes], missed_retractions)

    def _rows_replaced(self, codes: Ints, is_kept: Bools, old_rows: Ints, count: int) -> Ints:
        """For each change the row that its key has then: one of ``count`` in the state, one of the micro-batch behind
        them, or -1."""
        rows = pl.DataFrame({"code": codes}).with_row_index("row")
        row = pl.col("row").cast(pl.Int64).shift(1).over("code").fill_null(-1)
        previous = rows.select(row).to_series().to_numpy()
        return np.where(previous < 0, old_rows, np.where(is_kept[previous], count + previous, -1))

    def _missed_retractions(self, frame: pl.DataFrame, first: Ints) -> int:
        """How many keys are deleted of which there is no row: ``first`` has the first row of each key that has none in
        the state, and negative numbers. Without a TTL that is what repeated or needless deletions do; with a condition,
        nothing distinguishes them from those of rows that did not meet it."""
        retractions = is_retraction(frame)
        return 0 if retractions is None else int(retractions[first[first >= 0]].sum())

    def _output(self, new: pl.DataFrame, before: pl.DataFrame, is_kept: Bools, old: Ints, ttl: int) -> pl.DataFrame:
        """For each key of ``new`` its old row where it goes, and its new row where there is one."""
        is_output = is_kept | (old >= 0)
        if ttl == 0:
            names = [name for name in new.columns if name not in self._keys]
            is_output &= ~unchanged(new, before, np.where(is_kept, old, -1), names)
        leaving = np.flatnonzero(is_output & (old >= 0) & (~is_kept | self.generate_update_before))
        coming = np.flatnonzero(is_output & is_kept)
        kinds = np.where(old[coming] >= 0, RowKind.UPDATE_AFTER, RowKind.INSERT).astype(np.int8)
        output = with_kind(new[coming], kinds)
        if len(leaving):
            kinds = np.where(is_kept[leaving], RowKind.UPDATE_BEFORE, RowKind.DELETE).astype(np.int8)
            before_images = with_kind(before[old[leaving]], kinds)
            place = np.concatenate([2 * leaving, 2 * coming + 1])
            output = pl.concat([before_images, output], rechunk=True)[np.argsort(place)]
        return output
