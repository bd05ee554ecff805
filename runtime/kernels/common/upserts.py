"""Updates without their old rows, for operators that have to know what a row replaces."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from stateplan.common.changelog import KIND, RowKind
from stateplan.runtime.kernels.common.key_ids import Bools, ids_of, is_retraction, key_ids, positions, with_kind


def with_old_rows(
    frame: pl.DataFrame,
    state: pl.DataFrame,
    identity: Sequence[str],
    fields: Sequence[str],
    lasting: bool,
    kept: Bools | None = None,
) -> pl.DataFrame:
    """The changes, each with a -U of the row that it replaces in front of it.

    A deletion gets the row that it deletes, which it may have known by its key alone. One of a row that is not there
    is left out, unless that row may have expired.

    Args:
        frame: changes without -U.
        state: the rows that are there, at least those with an identity of ``frame``.
        identity: the unique key.
        fields: all fields.
        lasting: whether no row of the state expires.
        kept: which changes are of rows that the state keeps; None for all. The others stay as they are.
    """
    n = frame.height
    ids, (codes, before) = ids_of((frame, state), identity)
    order = np.argsort(codes, kind="stable")
    again = codes[order][1:] == codes[order][:-1]
    previous = np.full(n, -1, np.int64)
    previous[order[1:][again]] = order[:-1][again]
    first = previous < 0
    held = positions(before, ids.count)[codes]
    retracts = is_retraction(frame)
    gone = np.zeros(n, bool) if retracts is None else retracts
    # What was there, as a row of frame ++ state: the change before, or the row of the state.
    old = np.where(first, np.where(held >= 0, n + held, -1), np.where(gone[previous], -1, previous))
    known = old >= 0
    lost = gone & ~known & (~first | lasting)
    if kept is not None:
        known &= kept
        lost &= kept
    if not (known | lost).any():
        return frame
    rows = np.stack([np.where(known & ~gone, old, -1), np.where(gone & known, old, np.arange(n))], axis=1)
    rows[lost] = -1
    kinds = frame[KIND].to_numpy() if KIND in frame.columns else np.zeros(n, np.int8)
    both = np.stack([np.full(n, RowKind.UPDATE_BEFORE, np.int8), kinds], axis=1)
    taken = rows.reshape(-1) >= 0
    contents = pl.concat([frame[list(fields)], state[list(fields)]], rechunk=True)
    return with_kind(contents[rows.reshape(-1)[taken]], both.reshape(-1)[taken])


def without_old_rows(changes: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The changes without the -U that a later row of the same ``key`` replaces; the others are deletions."""
    kinds = changes[KIND].to_numpy() if KIND in changes.columns else None
    if kinds is None or not (kinds == RowKind.UPDATE_BEFORE).any():
        return changes
    ids = key_ids(changes, list(key))
    added = np.flatnonzero((kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER))
    last = np.full(ids.count, -1, np.int64)
    last[ids.codes[added]] = added
    old = kinds == RowKind.UPDATE_BEFORE
    replaced = old & (last[ids.codes] > np.arange(changes.height))
    kinds = np.where(old, RowKind.DELETE, kinds).astype(np.int8)
    return with_kind(changes.drop(KIND), kinds)[np.flatnonzero(~replaced)]
