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
    is_valid: Bools | None = None,
) -> pl.DataFrame:
    """The changes, each with a -U of the row that it replaces in front of it.

    A deletion gets the row that it deletes, which it may have known by its key alone. One of a row that is not there is
    omitted, unless that row may have expired.

    Args:
        frame: changes without -U.
        state: the rows that are there, at least those with an identity of ``frame``.
        identity: the unique key.
        fields: all fields.
        lasting: whether no row of the state expires.
        is_valid: which changes are of rows that the state keeps; None for all. The others stay as they are.
    """
    n = frame.height
    ids, (codes, before) = ids_of((frame, state), identity)
    order = np.argsort(codes, kind="stable")
    repeats = codes[order][1:] == codes[order][:-1]
    previous = np.full(n, -1, np.int64)
    previous[order[1:][repeats]] = order[:-1][repeats]
    first = previous < 0
    stored_places = positions(before, ids.count)[codes]
    retracts = is_retraction(frame)
    is_retraction_row = np.zeros(n, bool) if retracts is None else retracts
    # What was there, as a row of frame ++ state: the change before, or the row of the state.
    old = np.where(
        first, np.where(stored_places >= 0, n + stored_places, -1), np.where(is_retraction_row[previous], -1, previous)
    )
    has_old = old >= 0
    is_missing = is_retraction_row & ~has_old & (~first | lasting)
    if is_valid is not None:
        has_old &= is_valid
        is_missing &= is_valid
    if not (has_old | is_missing).any():
        return frame
    rows = np.stack(
        [np.where(has_old & ~is_retraction_row, old, -1), np.where(is_retraction_row & has_old, old, np.arange(n))],
        axis=1,
    )
    rows[is_missing] = -1
    kinds = frame[KIND].to_numpy() if KIND in frame.columns else np.zeros(n, np.int8)
    both = np.stack([np.full(n, RowKind.UPDATE_BEFORE, np.int8), kinds], axis=1)
    is_output = rows.reshape(-1) >= 0
    contents = pl.concat([frame[list(fields)], state[list(fields)]], rechunk=True)
    return with_kind(contents[rows.reshape(-1)[is_output]], both.reshape(-1)[is_output])


def without_old_rows(changes: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The changes without the -U that a later row of the same ``key`` replaces; the others are deletions."""
    kinds = changes[KIND].to_numpy() if KIND in changes.columns else None
    if kinds is None or not (kinds == RowKind.UPDATE_BEFORE).any():
        return changes
    ids = key_ids(changes, list(key))
    additions = np.flatnonzero((kinds == RowKind.INSERT) | (kinds == RowKind.UPDATE_AFTER))
    last = np.full(ids.count, -1, np.int64)
    last[ids.codes[additions]] = additions
    old = kinds == RowKind.UPDATE_BEFORE
    is_replaced = old & (last[ids.codes] > np.arange(changes.height))
    kinds = np.where(old, RowKind.DELETE, kinds).astype(np.int8)
    return with_kind(changes.drop(KIND), kinds)[np.flatnonzero(~is_replaced)]
