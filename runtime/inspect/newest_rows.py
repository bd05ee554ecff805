"""The newest versions of rows of a state table, as a selection: only what is returned is copied, and nothing is sorted
but hashes. :func:`runtime.state.runs.merge_runs` has the same rows, in the order of their hashes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.state.runs import HASH, TOMBSTONE

_PLACE = "@i"


def newest_rows(
    table: StateTable, runs: Sequence[pl.DataFrame], columns: Sequence[str], cut: int | None
) -> pl.DataFrame:
    """The rows of a table in one key group, without deleted and expired ones.

    Args:
        table: the table.
        runs: the parts of its runs, oldest first.
        columns: the columns to return, one or more.
        cut: rows that were last accessed at or before this instant (ms) have expired; None for none.
    """
    names = list(dict.fromkeys([*columns, *(table.identity or ()), ACCESS_TIME, HASH, TOMBSTONE]))
    rows = pl.concat([run.select(names) for run in reversed(runs)], rechunk=False)
    keep = ~rows[TOMBSTONE].to_numpy()
    if cut is not None:
        keep &= rows[ACCESS_TIME].to_numpy() > cut
    if len(runs) > 1:
        keep &= _newest(table, rows)
    selection = rows.select(columns)
    return selection if keep.all() else selection.filter(pl.Series(keep))


def _newest(table: StateTable, rows: pl.DataFrame) -> npt.NDArray[np.bool_]:
    """Whether a row is the first one of its identity."""
    hashes = rows[HASH].to_numpy()
    order = np.argsort(hashes, kind="stable")
    sorted_hashes = hashes[order]
    twin = np.zeros(len(order), bool)
    np.equal(sorted_hashes[1:], sorted_hashes[:-1], out=twin[1:])
    keep = np.ones(len(order), bool)
    if twin.any():
        twin[:-1] |= twin[1:]
        suspects = order[twin]
        identity = list(table.identity) or [HASH]
        others = rows.select(identity)[suspects].with_row_index(_PLACE)
        first = others.unique(subset=identity, keep="first", maintain_order=True)[_PLACE].to_numpy()
        keep[suspects] = False
        keep[suspects[first]] = True
    return keep
