"""Aggregate calls, rows for them, and their results by a slow reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st

from stateplan.common.types import BIGINT, BOOLEAN, DOUBLE, INT, STRING, LogicalType, row_type
from stateplan.execnodes.specs import AggCall
from stateplan.functions.aggregates import WELFORD
from tests.runtime.kernels.aggregate_reference import FUNCTIONS, Slow
from tests.runtime.kernels.reference import (
    Call,
    Change,
    GroupAggregate,
    Row,
    retracts,
    upsert_fold,
)
from tests.runtime.kernels.support import call


def plain(value: Any) -> Any:
    """Multisets in one order, numbers to 9 digits: later ones follow the order of additions within a batch."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return tuple(sorted(((e["key"], e["value"]) for e in value), key=str))
    if isinstance(value, list):
        return tuple(map(plain, value))
    return round(value, 9) + 0.0 if isinstance(value, float) else value


ROW = row_type(
    [
        ("g", INT),
        ("s", STRING),
        ("n", INT),
        ("ok", BOOLEAN),
        ("d", DOUBLE),
        ("sep", STRING),
        ("bucket", INT),
        ("half", DOUBLE),
    ]
)
ROWS: st.SearchStrategy[Row] = st.tuples(
    st.sampled_from([None, 1, 2]),
    st.sampled_from([None, "", "a", "b"]),
    st.sampled_from([None, 0, 1, 2, 3, -5, 2**31 - 1]),
    st.sampled_from([None, True, False]),
    st.sampled_from([None, 0.5, -3.5, 7.25]),
).map(lambda r: (*r, "-", None if r[2] is None else r[2] % 2, 0.5))
CALLS: list[AggCall] = [
    call("COUNT", None, BIGINT),
    call("COUNT", 2, BIGINT, passes=3),
    call("SUM", 2, INT),
    call("$SUM0", 2, INT, passes=3),
    call("AVG", 2, INT),
    call("MIN", 2, INT),
    call("MAX", 2, INT),
    call("MAX", 1, STRING, passes=3),
    call("COUNT", 2, BIGINT, True),
    call("SUM", 2, INT, True, 3),
    call("COUNT", 1, BIGINT, True, 3),
    call("COUNT", 1, BIGINT, True),
    call("ARRAY_AGG", 2, LogicalType("ARRAY", children=(INT,))),
    call("COLLECT", 1, LogicalType("MULTISET", children=(STRING,))),
    call("LISTAGG", 1, STRING).model_copy(update={"arg_list": (1, 5)}),
    call(WELFORD, 4, DOUBLE),
    call("PERCENTILE", 4, DOUBLE).model_copy(update={"arg_list": (4, 7)}),
    call("PERCENTILE", 2, DOUBLE).model_copy(update={"arg_list": (2, 7), "distinct": True}),
]

PARTS = st.lists(st.integers(0, 50), max_size=3)


class Reference:
    """The group aggregate: each call by one of the two references."""

    def __init__(self, chosen: Sequence[int], grouping: tuple[int, ...], retract: bool) -> None:
        self.calls = [CALLS[i] for i in chosen]
        self.grouping = grouping
        simple = [Call(c.function, *_arguments(c)) for c in self.calls if c.function not in FUNCTIONS]
        self.flink = GroupAggregate(grouping, [Call("COUNT", None), *simple], True, retract, 0)
        self.slow: dict[Row, list[Slow]] = {}
        self.out: list[Change] = []

    def add(self, change: Change, now: int) -> None:
        kind, row = change
        key = tuple(row[g] for g in self.grouping)
        self.out += self.flink.add(change, now)
        others = self.slow.setdefault(
            key,
            [Slow(c.function, c.arg_list, c.distinct, c.filter_arg) for c in self.calls if c.function in FUNCTIONS],
        )
        for slow in others:
            slow.change(row, -1 if retracts(kind) else 1)

    def rows(self) -> dict[Row, Row]:
        width = len(self.grouping)
        out: dict[Row, Row] = {}
        for key, row in upsert_fold(self.out, range(width)).items():
            found, other = iter(row[width + 1 :]), iter(self.slow[key])
            values = [next(other).value() if c.function in FUNCTIONS else next(found) for c in self.calls]
            out[key] = (*key, *map(plain, values))
        return out


def _arguments(c: AggCall) -> tuple[int | None, bool, int | None]:
    return (
        c.arg_list[0] if c.arg_list else None,
        c.distinct,
        c.filter_arg if c.filter_arg >= 0 else None,
    )
