"""Variances: the sum of the squared differences from the mean.

Source of the semantics: Flink's ``WelfordM2AggFunction``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.common.types import LogicalType
from stateplan.runtime.kernels.common.accumulators import Changes, MergeableFold
from stateplan.runtime.kernels.common.key_ids import Ints, ranks

Floats = npt.NDArray[np.float64]

_ROUNDS = 64
"""Up to this number of rows of a group in a batch are taken with those of all other groups, one row of each at a
time."""


class SquaredDifferences(MergeableFold):
    """``$WELFORD_M2$1``: number, mean and sum of squared differences (Welford); NULL without values."""

    needs_order = True

    def __init__(self, number: int, argument: LogicalType | None, result: LogicalType) -> None:
        self._names = (f"count{number}", f"mean{number}", f"squared differences{number}")
        self.columns = dict(zip(self._names, (pl.Int64(), pl.Float64(), pl.Float64()), strict=True))
        self.initial = dict(zip(self._names, (0, 0.0, 0.0), strict=True))

    def update(self, before: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        count, mean, squares = (before[n].to_numpy().copy() for n in self._names)
        if len(changes.codes):
            values = changes.column.cast(pl.Float64).to_numpy()
            signs = np.ones(len(values), np.int64) if changes.signs is None else changes.signs
            with np.errstate(all="ignore"):
                _advance(count, mean, squares, changes.codes, values, signs)
        return [pl.Series(n, v) for n, v in zip(self._names, (count, mean, squares), strict=True)]

    @property
    def parts(self) -> Mapping[str, pl.DataType]:
        return {**self.columns, **{f"{n}-": t for n, t in self.columns.items()}}

    def partial(self, changes: Changes) -> list[pl.Series]:
        """What comes and what goes apart: the difference of the two may hold no value and still change the mean."""
        if changes.signs is None:
            came, went = changes, replace(changes, codes=changes.codes[:0], values=changes.column[:0])
        else:
            rows, retractions = np.flatnonzero(changes.signs > 0), np.flatnonzero(changes.signs < 0)
            came = replace(changes, codes=changes.codes[rows], values=changes.column[rows], signs=None)
            went = replace(changes, codes=changes.codes[retractions], values=changes.column[retractions], signs=None)
        return [*super().partial(came), *(s.alias(f"{s.name}-") for s in super().partial(went))]

    def as_partial(self, state: pl.DataFrame) -> list[pl.Series]:
        nothing = [
            pl.Series(f"{n}-", [self.initial[n]], dtype=t).new_from_index(0, state.height)
            for n, t in self.columns.items()
        ]
        return [*super().as_partial(state), *nothing]

    def merge(self, before: pl.DataFrame, parts: pl.DataFrame, changes: Changes) -> list[pl.Series]:
        count, mean, squares = (before[n].to_numpy().copy() for n in self._names)
        rank = ranks(changes.codes)
        with np.errstate(all="ignore"):
            for turn in range(int(rank.max(initial=-1)) + 1):
                rows = np.flatnonzero(rank == turn)
                for suffix, sign in (("", 1), ("-", -1)):
                    columns = [parts[f"{n}{suffix}"].to_numpy()[rows] for n in self._names]
                    _combine(count, mean, squares, changes.codes[rows], sign, *columns)
        return [pl.Series(n, v) for n, v in zip(self._names, (count, mean, squares), strict=True)]

    def value(self, state: pl.DataFrame) -> pl.Series:
        count, _, squares = (state[n] for n in self._names)
        return squares.zip_with(count > 0, pl.Series([None], dtype=pl.Float64).new_from_index(0, len(squares)))


def _advance(count: Ints, mean: Floats, squares: Floats, codes: Ints, values: Floats, signs: Ints) -> None:
    """Takes the values into the accumulators, in place: those of a group one after another, as Flink does, on which the
    last digits depend."""
    rank = ranks(codes)
    lengths = np.bincount(codes, minlength=len(count))
    large = lengths > _ROUNDS
    if large.any():
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(lengths)
        for group in np.flatnonzero(large):
            mine = order[ends[group] - lengths[group] : ends[group]]
            moments = int(count[group]), float(mean[group]), float(squares[group])
            count[group], mean[group], squares[group] = _one_by_one(
                *moments, values[mine].tolist(), signs[mine].tolist()
            )
        few = ~large[codes]
        codes, values, signs, rank = codes[few], values[few], signs[few], rank[few]
    for turn in range(int(rank.max(initial=-1)) + 1):
        rows = np.flatnonzero(rank == turn)
        g, v, s = codes[rows], values[rows], signs[rows]
        count[g] += s
        n = count[g]
        delta = v - mean[g]
        new_mean = np.where(n == 0, 0.0, mean[g] + s * (delta / np.where(n == 0, 1, n)))
        squares[g] = np.where(n == 0, 0.0, squares[g] + s * (delta * (v - new_mean)))
        mean[g] = new_mean


def _one_by_one(
    count: int, mean: float, squares: float, values: list[float], signs: list[int]
) -> tuple[int, float, float]:
    """As :func:`_advance`, for one group."""
    for value, sign in zip(values, signs, strict=True):
        count += sign
        if not count:
            mean = squares = 0.0
            continue
        delta = value - mean
        mean += sign * (delta / count)
        squares += sign * (delta * (value - mean))
    return count, mean, squares


def _combine(
    count: Ints,
    mean: Floats,
    squares: Floats,
    groups: Ints,
    sign: int,
    number: Ints,
    own: Floats,
    own_squares: Floats,
) -> None:
    """Adds (``sign`` +1) or removes whole sets of values, given by number, mean and sum of squared differences."""
    rows = np.flatnonzero(number)
    g, n, other, part_squares = groups[rows], number[rows], own[rows], own_squares[rows]
    before = count[g]
    total = before + sign * n
    safe = np.where(total == 0, 1, total)
    delta = other - mean[g]
    if sign > 0:
        left = squares[g] + part_squares + delta**2 * (before * n / safe)
    else:
        left = squares[g] - part_squares - delta**2 * (before * n / safe)
    mean[g] = np.where(total == 0, 0.0, mean[g] + sign * delta * n / safe)
    squares[g] = np.where(total == 0, 0.0, left)
    count[g] = total
