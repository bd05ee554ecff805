"""Driving kernels in tests: frames from rows, changes from frames, input that retracts only existing rows, and how
many examples hypothesis tries."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from stateplan.common.changelog import KIND, columns
from stateplan.common.types import BIGINT, BOOLEAN, INT, STRING, LogicalType, row_type
from stateplan.execnodes.specs import AggCall
from tests.runtime.kernels.reference import DELETE, INSERT, UPDATE_AFTER, UPDATE_BEFORE, Change, Row, retracts

TYPES: dict[str, LogicalType] = {"i": INT, "l": BIGINT, "s": STRING, "b": BOOLEAN}


def row_of(letters: str) -> LogicalType:
    """ROW type with fields of the given letters (see :data:`TYPES`)."""
    return row_type([(f"f{i}", TYPES[letter]) for i, letter in enumerate(letters)])


def frame(row: LogicalType, changes: Sequence[Change], kind: bool | None = None) -> pl.DataFrame:
    """A frame of changes; without ``kind`` when all are insertions, unless told otherwise."""
    names = columns(len(row.fields))
    schema = {n: f.type.polars() for n, f in zip(names, row.fields, strict=True)}
    out = pl.DataFrame([r for _, r in changes], schema=schema, orient="row")
    if kind if kind is not None else any(k != INSERT for k, _ in changes):
        out = out.with_columns(pl.Series(KIND, [k for k, _ in changes], dtype=pl.Int8))
    return out


def changes_of(out: pl.DataFrame) -> list[Change]:
    """The changes of a frame."""
    rows = out.drop(KIND, strict=False).rows()
    kinds = out[KIND].to_list() if KIND in out.columns else [INSERT] * out.height
    return list(zip(kinds, rows, strict=True))


def call(function: str, argument: int | None, result: LogicalType, distinct: bool = False, passes: int = -1) -> AggCall:
    return AggCall(
        name="x",
        internal_name=f"${function}$1",
        arg_list=() if argument is None else (argument,),
        distinct=distinct,
        filter_arg=passes,
        type=result,
    )


def retracting(rows: st.SearchStrategy[Row], size: int) -> st.SearchStrategy[list[Change]]:
    """Changelogs in which only rows that are there are retracted; rows repeat."""
    steps = st.lists(st.tuples(st.integers(0, 4), rows, st.integers(0, 100)), max_size=size)

    def play(drawn: list[tuple[int, Row, int]]) -> list[Change]:
        there: list[Row] = []
        out: list[Change] = []
        for what, row, index in drawn:
            if what < 2 and there:
                gone = there.pop(index % len(there))
                out.append((DELETE if what else UPDATE_BEFORE, gone))
                if what == 0:
                    there.append(row)
                    out.append((UPDATE_AFTER, row))
            else:
                there.append(row)
                out.append((INSERT, row))
        return out

    return steps.map(play)


def anything(rows: st.SearchStrategy[Row], size: int) -> st.SearchStrategy[list[Change]]:
    """Changes of any kind, as behind operators whose state expired: rows may be retracted that are not there."""
    return st.lists(st.tuples(st.sampled_from([INSERT, UPDATE_BEFORE, UPDATE_AFTER, DELETE]), rows), max_size=size)


def inserting(rows: st.SearchStrategy[Row], size: int) -> st.SearchStrategy[list[Change]]:
    """Insertions."""
    return st.lists(rows.map(lambda row: (INSERT, row)), max_size=size)


def split(changes: Sequence[Any], cuts: Sequence[int]) -> list[list[Any]]:
    """``changes`` cut into consecutive batches after the given positions (taken modulo the length)."""
    if not changes:
        return []
    places = sorted({c % len(changes) for c in cuts} | {0, len(changes)})
    return [list(changes[a:b]) for a, b in pairwise(places)]


def legal(changes: Sequence[Change], start: dict[Row, int] | None = None) -> bool:
    """Whether the changelog retracts only what is there at that point."""
    there = dict(start or {})
    for kind, row in changes:
        there[row] = there.get(row, 0) + (-1 if retracts(kind) else 1)
        if there[row] < 0:
            return False
    return True


CUTS = st.lists(st.integers(0, 200), max_size=4)
CLOCK = st.lists(st.integers(0, 12), min_size=1, max_size=40)
"""Milliseconds between batches; tests use TTLs of 10 ms."""


def fewer(share: float) -> settings:
    """Settings of a test whose examples are long, or that is one of many alike: this share of the examples that the
    profile asks for."""
    default = settings.default
    assert default is not None
    return settings(max_examples=max(1, int(share * default.max_examples)))
