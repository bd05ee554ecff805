"""Expired rows that a later row needed: what an audit of state finds in a step."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.small_frames import rows_at
from stateplan.runtime.kernel import ACCESS_TIME, StateTable
from stateplan.runtime.kernels.common.key_ids import Bools, Ints, ids_of, positions, replay, signs
from stateplan.runtime.state.matching import Pairs, keys_of, match

NOBODY = -1
"""In place of the number of an input or of a row: no row of the micro-batch is known to have asked."""


@dataclass(frozen=True)
class Miss:
    """The expired rows of a table that a step needed.

    Attributes:
        table: the table.
        rows: the rows, with the time of their last access.
        uses: what each was needed for first: a :data:`runtime.metrics.ages.Use`.
        inputs: of each, the number of the input with the first row that needed it, or :data:`NOBODY`.
        positions: the number of that row in the frame of its input.
        is_retracted: whether a row retracts it.
        at: when they were needed, ms: by the clock that their TTL counts by.
        ttl: their TTL, ms.
    """

    table: StateTable
    rows: pl.DataFrame
    uses: npt.NDArray[np.str_]
    inputs: Ints
    positions: Ints
    is_retracted: Bools
    at: int
    ttl: int

    @property
    def retracted(self) -> pl.DataFrame:
        """The rows that were retracted, and are to be forgotten."""
        return self.rows.filter(pl.Series(self.is_retracted))


def first_matches(rows: pl.DataFrame, others: pl.DataFrame, pairs: Pairs) -> Ints:
    """Per row, of which there are few, the first of ``others`` that agrees with it; -1 for none.

    Args:
        pairs: columns of a row and of another one that are equal. NULL equals NULL.
    """
    if not rows.height or not others.height:
        return np.full(rows.height, NOBODY, np.int64)
    if not pairs:
        return np.zeros(rows.height, np.int64)
    places, others = _candidates(rows, others, pairs)
    first = match(rows, others, pairs, first=True)
    out: Ints = np.where(first >= 0, np.append(places, NOBODY)[first], NOBODY)
    return out


def _candidates(rows: pl.DataFrame, others: pl.DataFrame, pairs: Pairs) -> tuple[Ints, pl.DataFrame]:
    """The numbers of ``others`` that agree with any of ``rows`` in the first column, and these."""
    name, other = pairs[0]
    if rows.schema[name].is_nested() or rows.schema[name] == pl.Int128:
        return np.arange(others.height), others
    is_candidate = others[other].cast(rows.schema[name]).is_in(rows[name].implode(), nulls_equal=True)
    places = np.flatnonzero(is_candidate.to_numpy())
    return places, rows_at(others, places)


def retracted_rows(lost_rows: pl.DataFrame, changes: pl.DataFrame, live_rows: pl.DataFrame, pairs: Pairs) -> Ints:
    """Per lost row, the change that retracts it; -1 for none. A retraction takes a live row first.

    Args:
        lost_rows, live_rows: of a state table; of the live ones, those that agree with a change.
        changes: of the input whose rows the table keeps, in order.
        pairs: columns of a row, and those of a change that retracts it.
    """
    change = signs(changes)
    if change is None:
        return np.full(lost_rows.height, NOBODY, np.int64)
    if pairs:
        places, changes = _candidates(lost_rows, changes, pairs)
        change = change[places]
    else:
        places = np.arange(changes.height)
    rows, by = keys_of(lost_rows, changes, pairs)
    live, _ = keys_of(live_rows, changes, pairs)
    ids, (codes, by_codes, live_codes) = ids_of((rows, by, live), rows.columns)
    start = np.bincount(live_codes, minlength=ids.count)
    _, final = replay(by_codes, change, start)
    missed = final - start - np.bincount(by_codes, change, ids.count).astype(np.int64)
    ages = pl.DataFrame({"code": codes, "at": lost_rows[ACCESS_TIME]})
    rank = ages.select(pl.col("at").rank("ordinal", descending=True).over("code"))["at"].to_numpy()
    retractions = np.flatnonzero(change < 0)
    last = positions(by_codes[retractions], ids.count)
    last = np.where(last >= 0, np.append(places[retractions], NOBODY)[last], NOBODY)
    out: Ints = np.where(rank <= missed[codes], last[codes], NOBODY)
    return out
