"""The first rows of each partition, over inputs with changes of any kind.

Source of the semantics: Flink's ``RetractableTopNFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from stateplan.execnodes.changelog import KIND
from stateplan.execnodes.runtime.kernel import Frames, StateTable, Step, own_columns
from stateplan.execnodes.runtime.kernels.common.net import ids_of, ranks, replay, signs
from stateplan.execnodes.runtime.kernels.common.topn import SEQUENCE, TopN, sequence_after

_STATE = "rankState"


@dataclass(frozen=True)
class RetractTopNKernel(TopN):
    """The first N rows of each partition.

    The state holds all rows of a partition, as any of them may move up. A retraction takes away the first of the equal
    rows; when there is none, it changes nothing. Rows of equal order have one time of access, as in Flink: each change
    of one refreshes all of them.
    """

    @cached_property
    def tables(self) -> tuple[StateTable, ...]:
        schema = {**self._columns, **own_columns({SEQUENCE: pl.Int64()})}
        identity = (*self._keys, SEQUENCE)
        return (StateTable(_STATE, 0, self._keys, identity, schema, access=self._of_equals), *self._end_tables)

    def process(self, inputs: Frames, state: Frames, now: int, ttl: Sequence[int]) -> Step:
        frame, kept = inputs[0], state[0].sort(SEQUENCE)
        change = signs(frame)
        arrived = frame.drop(KIND) if KIND in frame.columns else frame
        if change is None:
            change = np.ones(frame.height, np.int64)
        rows = pl.concat([kept[list(self._fields)], arrived])
        old = np.arange(rows.height) < kept.height
        ids, (before_codes, codes) = ids_of((kept, arrived), list(self._fields))
        start = np.bincount(before_codes, minlength=ids.count)
        _, left = replay(codes, change, start)
        missed = int((left - start).sum() - change.sum())
        there = np.concatenate([np.ones(kept.height, bool), change > 0])
        # The first of equal rows goes first: of each the last ones are left.
        present = np.flatnonzero(there)
        equal = np.concatenate([before_codes, codes])[present]
        stays = np.zeros(rows.height, bool)
        stays[present[ranks(equal, backwards=True) < left[equal]]] = True
        sequence = np.concatenate([kept[SEQUENCE].to_numpy(), np.arange(arrived.height) + sequence_after(kept)])
        pool = self._pool(rows, kept.height, sequence)
        ends, written = self._ends(pool.groups[kept.height :], pool.count, arrived, state[1:], now)
        before, after = pool.places_among(old), pool.places_among(stays)
        changes = (self._by_place if self._by_number else self._by_row)(pool, before, after, ends)
        chosen = stays & ~old
        if ttl[0]:
            ties = self._ties(rows)
            touched = np.zeros(int(ties.max()) + 1, bool)
            touched[ties[kept.height :]] = True
            chosen |= stays & touched[ties]
        picked = np.flatnonzero(chosen)
        upserts = self._written(rows[picked], sequence[picked], now)
        deletes = self._identities(kept, self.tables[0], np.flatnonzero(old & ~stays))
        return Step(self._output(rows, changes), [upserts, *written], [deletes, *[None] * len(written)], missed)
