"""Correlates against nested loops: rows of table functions, of collections, conditions and LEFT joins."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.errors import DataError
from stateplan.common.types import BIGINT, BOOLEAN, INT, LogicalType, row_type
from stateplan.functions.rex import Call, CorrelVariable, FieldAccess, InputRef, Literal
from stateplan.functions.user import UserFunction
from stateplan.planner.catalog.udf import DataTypes, TableFunction, udtf
from stateplan.runtime.transforms.table_functions import CorrelateTransform, over_input
from tests.runtime.kernels.reference import INSERT, Change
from tests.runtime.kernels.support import changes_of, frame

ROW = row_type([("a", BIGINT), ("b", BIGINT)])
ROWS: st.SearchStrategy[tuple[Any, ...]] = st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.sampled_from([None, 1, 2]))


class Repeated(TableFunction):
    def eval(self, times: int | None, value: int | None) -> Iterator[tuple[int, int | None]]:
        for i in range(times or 0):
            yield i, value


REPEATED = udtf(Repeated(), ["BIGINT", "BIGINT"], ["BIGINT", "BIGINT"])


def call(function: UserFunction, *operands: Any) -> Call:
    return Call(function.result.not_null(), operands, system_name="f", function=function.with_name("f"))


@pytest.mark.parametrize(("join_type", "of_none"), [("INNER", []), ("LEFT", [(INSERT, (0, 8, None, None))])])
def test_a_row_appears_once_per_row_of_the_function(join_type: str, of_none: list[Change]) -> None:
    """The function returns the second field as often as the first one says, with a number."""
    correlate = CorrelateTransform(ROW, call(REPEATED, InputRef(BIGINT, 0), InputRef(BIGINT, 1)), join_type)
    out = changes_of(correlate(frame(ROW, [(INSERT, (2, 7)), (INSERT, (0, 8))]), 0))
    assert out == [(INSERT, (2, 7, 0, 7)), (INSERT, (2, 7, 1, 7)), *of_none]


@given(st.lists(st.tuples(st.integers(0, 3), ROWS), max_size=12), st.sampled_from(["INNER", "LEFT"]), st.booleans())
def test_every_row_with_the_rows_given_for_it(
    changes: list[tuple[int, tuple[Any, ...]]], join_type: str, positive: bool
) -> None:
    refs = [InputRef(BIGINT, 0), InputRef(BIGINT, 1)]
    zero = Literal(BIGINT.not_null(), 0)
    condition = Call(BOOLEAN, (InputRef(BIGINT, 0), zero), "$>$1", "BINARY") if positive else None
    correlate = pickle.loads(pickle.dumps(CorrelateTransform(ROW, call(REPEATED, *refs), join_type, condition)))
    wanted = []
    for kind, row in changes:
        given_rows = [r for r in Repeated().eval(*row) if not positive or r[0] > 0]
        if join_type == "LEFT" and not given_rows:
            wanted.append((kind, (*row, None, None)))
        wanted += [(kind, (*row, *r)) for r in given_rows]
    assert changes_of(correlate(frame(ROW, changes, kind=True), 0)) == wanted


def unnested(values: list[Any], of: LogicalType, fields: list[LogicalType], name: str = "UNNEST_ROWS") -> list[Any]:
    row = row_type([("x", of)])
    result = row_type([(f"f{i}", t) for i, t in enumerate(fields)], nullable=False)
    correlate = CorrelateTransform(row, Call(result, (InputRef(of, 0),), f"${name}$1"), "INNER")
    out = correlate(pl.DataFrame({"c0": pl.Series(values, dtype=of.polars())}), 0)
    return out.drop("c0").rows()


def test_collections_are_taken_apart() -> None:
    text = DataTypes.STRING()
    assert unnested([[1, None], None, [], [3]], DataTypes.ARRAY(INT), [INT]) == [(1,), (None,), (3,)]
    pair = row_type([("p", INT), ("q", text)])
    rows = [[{"p": 1, "q": "a"}, {"p": 2, "q": None}]]
    assert unnested(rows, DataTypes.ARRAY(pair), [INT, text]) == [(1, "a"), (2, None)]
    entries = [[{"key": "k", "value": 1}], [{"key": "l", "value": None}]]
    assert unnested(entries, DataTypes.MAP(text, INT), [text, INT]) == [("k", 1), ("l", None)]
    multiset = LogicalType("MULTISET", children=(text,))
    counted = [[{"key": "x", "value": 2}, {"key": "y", "value": 1}], [{"key": "z", "value": 1}]]
    assert unnested(counted, multiset, [text]) == [("x",), ("x",), ("y",), ("z",)]
    numbered = unnested(counted, multiset, [text, INT], "UNNEST_ROWS_WITH_ORDINALITY")
    assert numbered == [("x", 1), ("x", 2), ("y", 3), ("z", 1)]
    assert unnested([[7, 8], [9]], DataTypes.ARRAY(INT), [INT, INT], "UNNEST_ROWS_WITH_ORDINALITY") == [
        (7, 1),
        (8, 2),
        (9, 1),
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (lambda v: None, []),
        (lambda v: "ab", ["ab"]),
        (lambda v: ["a", "b"], ["a", "b"]),
        (lambda v: ("a",), ["a"]),
        (lambda v: iter([("a",), "b"]), ["a", "b"]),
    ],
)
def test_what_a_function_may_give(body: Any, expected: list[str]) -> None:
    correlate = CorrelateTransform(ROW, call(udtf(body, None, ["STRING"]), InputRef(BIGINT, 0)), "INNER")
    out = correlate(frame(ROW, [(0, (1, 1))]), 0)
    assert out["c2"].to_list() == expected


@pytest.mark.parametrize(
    ("body", "types", "code"),
    [
        (lambda v: [(1, 2)], ["BIGINT"], "DATA311"),
        (lambda v: [(1,)], ["BIGINT", "BIGINT"], "DATA311"),
        (lambda v: ["x"], ["BIGINT"], "DATA311"),
        (lambda v: 1 // 0, ["BIGINT"], "DATA310"),
    ],
)
def test_errors(body: Any, types: list[str], code: str) -> None:
    correlate = CorrelateTransform(ROW, call(udtf(body, None, types), InputRef(BIGINT, 0)), "INNER")
    with pytest.raises(DataError) as caught:
        correlate(frame(ROW, [(0, (1, 1))]), 0)
    assert caught.value.code == code


def test_the_outer_row_of_a_plan_is_the_input() -> None:
    outer = CorrelVariable(row_type([("a", BIGINT), ("b", BIGINT), ("s", BIGINT)]), "$cor0")
    assert over_input(FieldAccess(BIGINT, "b", outer), ROW) == InputRef(BIGINT, 1)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.tuples(st.integers(-1, 3), st.sampled_from([None, 1, 2]))), max_size=12)
)
def test_rows_as_often_as_a_count_says(changes: list[tuple[int, tuple[Any, ...]]]) -> None:
    refs = (InputRef(BIGINT, 0), InputRef(BIGINT, 1))
    function = Call(row_type([("b", BIGINT)], nullable=False), refs, "$REPLICATE_ROWS$1")
    correlate = pickle.loads(pickle.dumps(CorrelateTransform(ROW, function, "INNER")))
    wanted = [(kind, (*row, row[1])) for kind, row in changes for _ in range(row[0])]
    assert changes_of(correlate(frame(ROW, changes, kind=True), 0)) == wanted
