"""Changelog normalization: upserts as changes of the last row of every key.

Source of the semantics: Flink's ``ProcTimeDeduplicateKeepLastRowFunction`` over changes
(``DeduplicateFunctionHelper.processLastRowOnChangelog``) and its mini-batch form, which looks only at the last change
of a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind
from stateplan.functions.rex import Rex
from stateplan.runtime.kernel import Frames, KeyedKernel, StateTable, Step
from stateplan.runtime.kernels.common.key_ids import (
    Bools,
    Ints,
    ids_of,
    is_retraction,
    positions,
    stamped,
    truth,
    unchanged,
    with_kind,
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
        time_zone: of the session, for the condition.
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
        ids, (known, codes) = ids_of((before, frame), self._keys)
        last = positions(codes, ids.count)
        rows = np.arange(frame.height) if self.every_version else np.sort(last[last >= 0])
        final = rows == last[codes[rows]]
        stored = positions(known, ids.count)[codes[rows]]
        changes = frame[rows]
        gone = is_retraction(changes)
        new = changes.drop(KIND, strict=False)
        kept = np.ones(len(rows), bool) if gone is None else ~gone
        if self._test is not None and kept.any():
            passing = np.flatnonzero(kept)
            kept[passing] = truth(self._test(new[passing], now)["c0"])
        coming = np.flatnonzero(kept & final)
        upserts = stamped(new[coming], now) if len(coming) else None
        lost = np.flatnonzero(~kept & final & (stored >= 0))
        deletes = before[list(self._keys)][stored[lost]] if len(lost) else None
        missed = self._missed(frame, ids.first - before.height) if ttl[0] and self.condition is None else 0
        known_rows, old = before[new.columns], stored
        if self.every_version:
            old = self._replaced(codes, kept, stored, before.height)
            known_rows = pl.concat([known_rows, new], rechunk=True)
        return Step(self._output(new, known_rows, kept, old, ttl[0]), [upserts], [deletes], missed)

    def _replaced(self, codes: Ints, kept: Bools, stored: Ints, count: int) -> Ints:
        """For each change the row that its key has then: one of ``count`` in the state, one of the micro-batch behind
        them, or -1."""
        rows = pl.DataFrame({"code": codes}).with_row_index("row")
        row = pl.col("row").cast(pl.Int64).shift(1).over("code").fill_null(-1)
        previous = rows.select(row).to_series().to_numpy()
        return np.where(previous < 0, stored, np.where(kept[previous], count + previous, -1))

    def _missed(self, frame: pl.DataFrame, first: Ints) -> int:
        """How many keys are deleted of which there is no row: ``first`` has the first row of each key that has none in
        the state, and negative numbers. Without a TTL that is what repeated or needless deletions do; with a condition
        nothing tells them from those of rows that did not meet it."""
        retracted = is_retraction(frame)
        return 0 if retracted is None else int(retracted[first[first >= 0]].sum())

    def _output(self, new: pl.DataFrame, before: pl.DataFrame, kept: Bools, old: Ints, ttl: int) -> pl.DataFrame:
        """For each key of ``new`` its old row where it goes, and its new row where there is one."""
        said = kept | (old >= 0)
        if ttl == 0:
            names = [name for name in new.columns if name not in self._keys]
            said &= ~unchanged(new, before, np.where(kept, old, -1), names)
        leaving = np.flatnonzero(said & (old >= 0) & (~kept | self.generate_update_before))
        coming = np.flatnonzero(said & kept)
        kinds = np.where(old[coming] >= 0, RowKind.UPDATE_AFTER, RowKind.INSERT).astype(np.int8)
        output = with_kind(new[coming], kinds)
        if len(leaving):
            kinds = np.where(kept[leaving], RowKind.UPDATE_BEFORE, RowKind.DELETE).astype(np.int8)
            gone = with_kind(before[old[leaving]], kinds)
            place = np.concatenate([2 * leaving, 2 * coming + 1])
            output = pl.concat([gone, output], rechunk=True)[np.argsort(place)]
        return output
