"""MATCH_RECOGNIZE against all ways in which rows fit a pattern."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import cache
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import column
from stateplan.common.errors import DataError, RunError
from stateplan.common.types import BIGINT, INT, LogicalType
from stateplan.execnodes.nodes.match import Match
from stateplan.functions.builder import make_call
from stateplan.functions.rex import InputRef
from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK, Watermark
from stateplan.runtime.kernels.common.automaton import Automaton, Variable, malformed
from stateplan.runtime.kernels.common.match_expressions import Condition
from stateplan.runtime.kernels.common.match_scalars import Inexact, compiled
from stateplan.runtime.kernels.match import MatchKernel
from stateplan.runtime.operators import operator_of
from stateplan.runtime.transforms.calc import CalcTransform
from stateplan.session.environment import TableEnvironment
from tests.runtime.kernels.match_reference import AGGREGATES, Context, Part, Taken, check, variance
from tests.runtime.kernels.support import CUTS, fewer, split
from tests.runtime.memory_state import MemoryState

EPOCH = datetime(1970, 1, 1)
NAMES = ("A", "B", "C")
SOURCE = """CREATE TABLE t (k INT, id INT, p INT, ts TIMESTAMP(3), pt AS PROCTIME(), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = 'json')"""
MEASURES = ", ".join(f"FIRST({v}.id) AS f{v}, LAST({v}.id) AS l{v}" for v in NAMES)
COLUMNS = "".join(f", f{v} INT, l{v} INT" for v in NAMES)
SCHEMA = {"c0": pl.Int32(), "c1": pl.Int32(), "c2": pl.Int32(), "c3": pl.Datetime("ms"), "c4": pl.Datetime("ms", "UTC")}
Row = dict[str, Any]


@cache
def kernel_of(tail: str, order: str = "ts, id") -> MatchKernel:
    """The kernel of a clause that ends with ``tail``; its measures are the first and last row of each variable, and
    the time of the match."""
    session = TableEnvironment.create()
    session.execute_sql(SOURCE)
    sink = f"CREATE TABLE s (k INT{COLUMNS}, rt TIMESTAMP(3)) WITH ('connector' = 'print')"
    session.execute_sql(sink)
    clause = f"PARTITION BY k ORDER BY {order} MEASURES {MEASURES}, MATCH_ROWTIME() AS rt {tail}"
    graph = session.compile_plan_sql(f"INSERT INTO s SELECT * FROM t MATCH_RECOGNIZE ({clause}) AS m").document.graph
    (node,) = [n for n in graph.nodes if isinstance(n, Match)]
    made = operator_of(node, graph.input_types(node), {}).kernel
    assert isinstance(made, MatchKernel)
    return made


def _none_above(values: Sequence[Any], test: Callable[[Any, Any], bool], n: int = 1) -> bool:
    """Whether the last value and the one ``n`` before it are there and pass."""
    if len(values) <= n or values[-1] is None or values[-1 - n] is None:
        return False
    return test(values[-1], values[-1 - n])


def _last(values: Sequence[Any]) -> Any:
    return values[-1] if values else None


def _first_there(values: Sequence[Any]) -> Any:
    return next((v for v in values if v is not None), None)


def _above(p: int | None, number: int) -> bool:
    return p is not None and p > 2 and number > 3


def _sum(values: Sequence[Any]) -> int | None:
    there = [v for v in values if v is not None]
    return sum(there) if there else None


def _both(a: Any, b: Any, test: Callable[[Any, Any], bool]) -> bool:
    return a is not None and b is not None and test(a, b)


CONDITIONS: dict[str, Callable[[Context, int], bool]] = {
    "{v}.p > 2": lambda c, u: _both(c.rows[c.at]["p"], 2, lambda a, b: a > b),
    "p < 4": lambda c, u: _both(c.rows[c.at]["p"], 4, lambda a, b: a < b),
    "{v}.p * 2 - 3 <= 5 OR {v}.p IS NULL": lambda c, u: (p := c.rows[c.at]["p"]) is None or p * 2 - 3 <= 5,
    "{v}.p > LAST({v}.p, 1)": lambda c, u: _none_above(c.of(c.variable, "p"), lambda a, b: a > b),
    "p <> LAST(p, 1)": lambda c, u: _none_above(c.of_all("p"), lambda a, b: a != b),
    "{v}.p >= LAST({v}.p, 2)": lambda c, u: _none_above(c.of(c.variable, "p"), lambda a, b: a >= b, 2),
    "COUNT({v}.p) < 3": lambda c, u: sum(p is not None for p in c.of(c.variable, "p")) < 3,
    "SUM(p) < 9": lambda c, u: _both(_sum(c.of_all("p")), 9, lambda a, b: a < b),
    "COUNT(*) <= 4": lambda c, u: len(c.of_all("p")) <= 4,
    "{v}.p <> {u}.p": lambda c, u: _both(c.rows[c.at]["p"], _last(c.of(u, "p")), lambda a, b: a != b),
    "{v}.p > FIRST({u}.p)": lambda c, u: _both(c.rows[c.at]["p"], (c.of(u, "p") or [None])[0], lambda a, b: a > b),
    "{v}.p <= MAX({u}.p)": lambda c, u: _both(
        c.rows[c.at]["p"], max((p for p in c.of(u, "p") if p is not None), default=None), lambda a, b: a <= b
    ),
    "ABS({v}.p) + {u}.p < 7": lambda c, u: _both(c.rows[c.at]["p"], _last(c.of(u, "p")), lambda a, b: a + b < 7),
    "FIRST_VALUE(p) <= LAST_VALUE({v}.p)": lambda c, u: _both(
        _first_there(c.of_all("p")), _first_there(c.of(c.variable, "p")[::-1]), lambda a, b: a <= b
    ),
    "VAR_POP({v}.p) < 3 OR {v}.p IS NULL": lambda c, u: (
        c.rows[c.at]["p"] is None or _both(variance(c.of(c.variable, "p"), False), 3, lambda a, b: a < b)
    ),
    "CARDINALITY(ARRAY_AGG({v}.id)) < 3": lambda c, u: len(c.of(c.variable, "id")) < 3,
    "SUM(LAST({u}.p, 1)) < 9": lambda c, u: _both(_sum(c.of(u, "p")), 9, lambda a, b: a < b),
    "LAST({v}.p > 2 AND {v}.id > 3, 1)": lambda c, u: (
        len(c.of(c.variable, "p")) > 1 and _above(c.of(c.variable, "p")[-2], c.of(c.variable, "id")[-2])
    ),
    "TRUE": lambda c, u: True,
}
"""Conditions of the variable ``v``, which may look at the variable ``u``: SQL, and what it means."""


@cache
def condition(text: str, v: int, u: int) -> Condition | None:
    meaning = text.format(v=NAMES[v], u=NAMES[u])
    return kernel_of(f"PATTERN (A B C) DEFINE {NAMES[v]} AS {meaning}").conditions[v]


BOUNDS = st.sampled_from(
    [(1, 1), (1, 1), (0, None), (1, None), (0, 1), (2, 2), (1, 3), (2, None), (0, 2), (2, 3)],
)
VARIABLE = st.tuples(BOUNDS, st.booleans(), st.sampled_from(list(CONDITIONS)), st.integers(0, 2))
PATTERNS = st.tuples(VARIABLE, VARIABLE, VARIABLE)
SKIPS = st.sampled_from(["NEXT", "PAST", "FIRST", "LAST"])
KEYS = st.sampled_from([1, 1, 1, None])
ROWS = st.lists(st.tuples(KEYS, st.sampled_from([None, *range(6)]), st.integers(0, 3)), min_size=5, max_size=24)


def allowed(pattern: Any) -> tuple[Variable, ...]:
    """The variables of a pattern, changed where it could not be."""
    variables: list[Variable] = []
    for name, ((low, high), greedy, _, _) in zip(NAMES, pattern, strict=True):
        if low == 0 and high in (None, 1) and variables and variables[-1].is_greedy:
            variables[-1] = replace(variables[-1], greedy=False)
        variables.append(Variable(name, low, high, greedy or (low, high) == (0, 1)))
    if variables[-1].is_greedy:
        variables[-1] = replace(variables[-1], greedy=False)
    if all(v.low == 0 for v in variables):
        variables[-1] = Variable(NAMES[-1])
    assert malformed(variables) is None
    return tuple(variables)


def drawn(pattern: Any, skip: Any, within: int) -> tuple[MatchKernel, list[Part]]:
    """The kernel and the reference's pattern."""
    variables, target = allowed(pattern), -1
    if skip in ("FIRST", "LAST"):
        target = next((i for i in (1, 2) if variables[i].low and any(v.low for v in variables[:i])), -1)
        skip = skip if target >= 0 else "PAST"
    conditions = tuple(condition(text, v, u) for v, (_, _, text, u) in enumerate(pattern))
    base = kernel_of("PATTERN (A B C) DEFINE A AS TRUE")
    kernel = replace(base, automaton=Automaton(variables, skip, target, within), conditions=conditions)
    meanings = [(lambda c, m=CONDITIONS[text], u=u: m(c, u)) for _, _, text, u in pattern]
    parts = [Part(v.low, v.high, v.greedy, m) for v, m in zip(variables, meanings, strict=True)]
    return pickle.loads(pickle.dumps(kernel)), parts


def framed(rows: Sequence[Row]) -> pl.DataFrame:
    times = [EPOCH + timedelta(milliseconds=r["t"]) for r in rows]
    columns = [[r["k"] for r in rows], [r["id"] for r in rows], [r["p"] for r in rows], times, [None] * len(rows)]
    return pl.DataFrame(dict(zip(SCHEMA, columns, strict=True)), schema=SCHEMA)


def timed(given_rows: Sequence[tuple[Any, Any, int]]) -> list[Row]:
    """Rows whose time goes on by the third number, with now and then one that is before the others."""
    at, out = 0, []
    for number, (key, p, step) in enumerate(given_rows):
        at += step
        out.append({"k": key, "id": number, "p": p, "t": at - (2 if step == 3 and number % 2 else 0)})
    return out


def taken(found: pl.DataFrame, rows: Sequence[Row], key: Any) -> list[Taken]:
    """The matches of a key: per variable the positions among its ``rows``."""
    places = {r["id"]: i for i, r in enumerate(rows)}
    out = []
    for k, *ends in found.rows():
        if k == key:
            pairs = zip(ends[0:6:2], ends[1:6:2], strict=True)
            out.append(tuple(() if a is None else tuple(range(places[a], places[b] + 1)) for a, b in pairs))
    return out


def following(automaton: Automaton) -> Callable[[Taken], int]:
    """Where the next match begins behind one."""

    def of(match: Taken) -> int:
        every = [p for t in match for p in t]
        if automaton.skip == "NEXT":
            return every[0] + 1
        if automaton.skip == "PAST":
            return every[-1] + 1
        return match[automaton.target][0 if automaton.skip == "FIRST" else -1]

    return of


def run(kernel: MatchKernel, batches: Sequence[Sequence[Row]], marks: Sequence[int]) -> tuple[MemoryState, list[Any]]:
    state, before, out = MemoryState(kernel), NO_WATERMARK, []
    for now, (batch, mark) in enumerate(zip(batches, marks, strict=True)):
        out.append(state.step([framed(batch)], now, [0], Watermark(before, mark)).rows())
        before = mark
    return state, out


def rows_at(*given_rows: tuple[int, int | None], key: int = 1) -> list[Row]:
    return [{"k": key, "id": t, "p": p, "t": t} for t, p in given_rows]


def test_a_dip_of_the_price_is_a_match() -> None:
    """The price falls below 5 and then rises above it. The row at 4 ends the match, and its watermark reports it."""
    kernel = kernel_of("AFTER MATCH SKIP PAST LAST ROW PATTERN (A B+ C) DEFINE B AS B.p < A.p, C AS C.p > A.p")
    state = MemoryState(kernel)
    assert state.step([framed(rows_at((1, 5), (3, 2), (2, 3)))], 0, [0], Watermark(NO_WATERMARK, 3)).height == 0
    assert any(state.tables), "the match may go on"
    found = state.step([framed(rows_at((4, 7)))], 1, [0], Watermark(3, 4)).rows()
    assert found == [(1, 1, 1, 2, 3, 4, 4, EPOCH + timedelta(milliseconds=4))]
    assert not any(state.tables), "the next match begins behind this one"


@fewer(2)
@given(PATTERNS, SKIPS, st.sampled_from([0, 0, 4, 7]), ROWS, CUTS, st.lists(st.integers(0, 8), min_size=6, max_size=6))
def test_event_time(pattern, skip, within, given_rows, cuts, marks) -> None:
    """Rows come out of order and some are late; batches are split anyhow."""
    kernel, parts = drawn(pattern, skip, within)
    state, before, seen = MemoryState(kernel), NO_WATERMARK, list[Row]()
    outputs = []
    batches = split(timed(given_rows), cuts)
    for now, batch in enumerate([*batches, []]):
        step = marks[now % len(marks)]
        after = max(before, -1) + step if step else before
        outputs.append(state.step([framed(batch)], now, [0], Watermark(before, after)))
        seen += [r for r in batch if r["t"] > before]
        before = after
    found = pl.concat(outputs)
    for key in {r["k"] for r in seen}:
        rows = sorted((r for r in seen if r["k"] == key and r["t"] <= before), key=lambda r: (r["t"], r["id"]))
        old = [within > 0 and before - r["t"] >= within for r in rows]
        check(rows, parts, taken(found, rows, key), following(kernel.automaton), within, old)


@fewer(1)
@given(PATTERNS, SKIPS, ROWS, CUTS, CUTS)
def test_processing_time(pattern, skip, given_rows, cuts, others) -> None:
    """Rows are taken as they come, however they are split into micro-batches."""
    kernel, parts = drawn(pattern, skip, 0)
    kernel = replace(kernel, event_time=False, order=kernel_of("PATTERN (A B C) DEFINE A AS TRUE", "pt").order)
    rows = [{**r, "t": 0} for r in timed(given_rows)]
    results = []
    for places in (cuts, others):
        state = MemoryState(kernel)
        steps = enumerate(split(rows, places))
        results.append([state.step([framed(b)], now, [0], Watermark(NO_WATERMARK, now)) for now, b in steps])
    found = [pl.concat(r).drop("c7") if r else framed([]) for r in results]
    for key in {r["k"] for r in rows}:
        mine = [r for r in rows if r["k"] == key]
        check(mine, parts, taken(found[0], mine, key), following(kernel.automaton))
        assert taken(found[0], mine, key) == taken(found[1], mine, key)


VALUES = st.lists(st.none() | st.integers(-50, 50), min_size=3, max_size=9)


@cache
def measuring() -> MatchKernel:
    """A kernel whose measures are, of each variable, all aggregates."""
    measures = [call.format(x=f"{v}.p") for v in NAMES for call in AGGREGATES]
    listed = ", ".join(f"{m} AS m{i}" for i, m in enumerate(measures))
    clause = f"ORDER BY ts, id MEASURES {listed} PATTERN (A B*? C) DEFINE A AS A.id = 0, C AS C.id = 2"
    session = TableEnvironment.create()
    session.execute_sql(SOURCE)
    session.execute_sql("CREATE TABLE s (n BIGINT) WITH ('connector' = 'print')")
    query = f"INSERT INTO s SELECT COUNT(*) FROM t MATCH_RECOGNIZE ({clause}) AS m"
    graph = session.compile_plan_sql(query).document.graph
    (node,) = [n for n in graph.nodes if isinstance(n, Match)]
    made = operator_of(node, graph.input_types(node), {}).kernel
    assert isinstance(made, MatchKernel)
    return made


@fewer(4)
@given(VALUES, st.integers(1, 8))
def test_aggregates_of_a_match(values, last) -> None:
    """A is the first row, C the one at ``last``, and B those between them."""
    rows = [{"k": 1, "id": 0 if i == 0 else (1 if i < last else 2), "p": p, "t": i} for i, p in enumerate(values)]
    _, out = run(measuring(), [rows], [len(rows)])
    if last >= len(rows):
        assert out == [[]]
        return
    parts = (values[:1], values[1:last], values[last : last + 1])
    assert list(out[0][0]) == [meaning(v) for v in parts for meaning in AGGREGATES.values()]


# ---- single cases ------------------------------------------------------------------------------------------------


def test_a_match_that_waits_is_told_when_within_is_over() -> None:
    """The match of the second row is complete, and waits for that of the first one, which never is."""
    tail = "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B*? C) WITHIN INTERVAL '0.010' SECOND DEFINE C AS C.p > A.p"
    kernel = kernel_of(tail)
    batches = [rows_at((1, 9), (2, 1), (3, 5)), [], []]
    state, out = run(kernel, batches, [5, 10, 11])
    assert out[:2] == [[], []]
    assert out[2] == [(1, 2, 2, None, None, 3, 3, EPOCH + timedelta(milliseconds=11))]
    assert [len(t) for t in state.tables] == [0, 0, 0], "nothing is kept of matches that are over"


def test_time_of_a_match_is_that_of_its_last_row() -> None:
    kernel = kernel_of("PATTERN (A B C) DEFINE A AS A.p = 1")
    _, out = run(kernel, [rows_at((1, 1), (4, 2)), rows_at((8, 3))], [4, 9])
    assert out == [[], [(1, 1, 1, 4, 4, 8, 8, EPOCH + timedelta(milliseconds=8))]]


def test_rows_wait_for_the_watermark_and_late_ones_are_dropped() -> None:
    kernel = kernel_of("PATTERN (A B C) DEFINE A AS A.p = 1, B AS B.p = 2, C AS C.p = 3")
    state = MemoryState(kernel)
    assert state.step([framed(rows_at((7, 3), (1, 1)))], 0, [0], Watermark(NO_WATERMARK, 3)).height == 0
    step = kernel.advance([framed(rows_at((3, 2), (2, 9)))], _empty(kernel), 1, [0], Watermark(3, 3))
    assert step.late == 2
    assert state.step([framed(rows_at((3, 9), (5, 2)))], 1, [0], Watermark(3, 9)).height == 1


def _empty(kernel: MatchKernel) -> list[pl.DataFrame]:
    return [pl.DataFrame(schema={**t.schema, "@t": pl.Int64()}) for t in kernel.tables]


def test_keys_without_a_match_keep_nothing() -> None:
    kernel = kernel_of("PATTERN (A B C) DEFINE A AS A.p = 1")
    state, _ = run(kernel, [rows_at((1, 5), (2, 6)), rows_at((3, 7))], [9, 20])
    assert not any(state.tables)


def test_matches_whose_rows_are_gone_are_dropped() -> None:
    """As they would be once the state has a TTL: rows of a match and what is known of it expire one by one."""
    kernel = kernel_of("PATTERN (A B C) DEFINE A AS A.p = 1")
    batch, more = rows_at((1, 1), (2, 1)), rows_at((3, 4), (4, 5))
    state, _ = run(kernel, [batch], [2])
    rows = state.tables[2]
    first = min(rows, key=lambda identity: rows[identity]["c1"])
    del rows[first]
    assert state.step([framed(more)], 1, [0], Watermark(2, 9)).rows()[0][1:7] == (2, 2, 3, 3, 4, 4)
    state, _ = run(kernel, [batch], [2])
    state.tables[1].clear()
    assert state.step([framed(more)], 1, [0], Watermark(2, 9)).height == 0
    assert not state.tables[2], "rows of nothing are removed"


@pytest.mark.parametrize(
    ("tail", "code"),
    [
        ("AFTER MATCH SKIP TO FIRST A PATTERN (A B C) DEFINE A AS TRUE", "RUN066"),
        ("AFTER MATCH SKIP TO LAST B PATTERN (A B*? C) DEFINE A AS TRUE", "RUN066"),
    ],
)
def test_a_match_that_cannot_be_left(tail: str, code: str) -> None:
    with pytest.raises(RunError) as caught:
        run(kernel_of(tail), [rows_at((1, 1), (2, 2), (3, 3))], [9])
    assert caught.value.code == code
    assert caught.value.expected or caught.value.hint or caught.value.message


@pytest.mark.parametrize(
    ("skip", "begins"),
    [
        ("TO NEXT ROW", [1, 2, 3, 5]),
        ("PAST LAST ROW", [1]),
        ("TO FIRST B", [1, 2, 3, 5]),
        ("TO LAST B", [1, 5]),
        ("TO B", [1, 5]),
    ],
)
def test_where_the_next_match_begins(skip: str, begins: list[int]) -> None:
    kernel = kernel_of(f"AFTER MATCH SKIP {skip} PATTERN (A B+ C) DEFINE B AS B.p < 5, C AS C.p > 5")
    _, out = run(kernel, [rows_at((1, 1), (2, 1), (3, 1), (4, 1), (5, 9), (6, 4), (7, 8))], [9])
    assert [row[1] for row in out[0]] == begins


def test_within_by_the_clock() -> None:
    """A row that comes too late is not part of the match; what is over is removed, also for keys without rows."""
    kernel = kernel_of("PATTERN (A B C) WITHIN INTERVAL '0.010' SECOND DEFINE A AS A.p = 1", "pt")
    state = MemoryState(kernel)
    for now, batch in ((100, rows_at((1, 1), (2, 2))), (105, rows_at((3, 3))), (106, rows_at((4, 1), (5, 5)))):
        found = state.step([framed(batch)], now, [0], Watermark(NO_WATERMARK, now)).height
        assert found == (now == 105)
    assert state.step([framed(rows_at((6, 6)))], 116, [0], Watermark(NO_WATERMARK, 116)).height == 0
    state.step([framed(rows_at((7, 1), key=2))], 120, [0], Watermark(NO_WATERMARK, 120))
    assert [len(t) for t in state.tables] == [0, 1, 1]
    state.step([framed(rows_at((8, 5), key=3))], 130, [0], Watermark(NO_WATERMARK, 130))
    assert not any(state.tables)


def test_a_condition_fails_only_on_rows_that_it_is_asked_of() -> None:
    """B is never asked of a row whose division fails, as long as no A is in front of it."""
    kernel = kernel_of("PATTERN (A B C) DEFINE A AS A.p = 1, B AS 10 / (B.p - 1) > 1")
    assert run(kernel, [rows_at((1, 0), (2, 1), (3, 4), (4, 4))], [9])[1][0] != []
    with pytest.raises(DataError) as caught:
        run(kernel, [rows_at((1, 1), (2, 1), (3, 1))], [9])
    assert caught.value.code == "DATA301"


def test_ties_of_time_go_by_further_columns() -> None:
    kernel = kernel_of("PATTERN (A B C) DEFINE A AS A.p = 1, B AS B.p = 2, C AS C.p = 3", "ts, p DESC, id")
    tied = [{"k": 1, "id": i, "p": p, "t": 5} for i, p in ((1, None), (2, 3), (3, 1), (4, 2))]
    _, out = run(kernel, [tied, rows_at((6, 2), (7, 3))], [5, 9])
    assert out == [[], []], "the row without a value comes last, behind 1"
    kernel = kernel_of("PATTERN (A B C) DEFINE A AS A.p = 1, B AS B.p = 2, C AS C.p = 3", "ts, p")
    assert run(kernel, [tied], [5])[1][0][0][1:7] == (3, 3, 4, 4, 2, 2)


def test_the_end_of_the_input_has_a_time_that_can_be_written() -> None:
    tail = "AFTER MATCH SKIP PAST LAST ROW PATTERN (A B*? C) WITHIN INTERVAL '1' DAY DEFINE C AS C.p > A.p"
    _, out = run(kernel_of(tail), [rows_at((1, 9), (2, 1), (3, 5)), []], [5, END_OF_TIME])
    assert out[1][0][7].year == 9999


# ---- expressions by plain Python -----------------------------------------------------------------------------------

NUMBERS = (INT, BIGINT, LogicalType("DECIMAL", precision=10, scale=2), LogicalType("DECIMAL", precision=6, scale=4))


def _values(t: LogicalType) -> st.SearchStrategy[Any]:
    if t.root != "DECIMAL":
        bound = 2**31 - 1 if t.root == "INTEGER" else 2**63 - 1
        return st.none() | st.integers(-9, 9) | st.integers(-bound, bound)
    digits = 10 ** (t.precision or 0) - 1
    return st.none() | st.integers(-digits, digits).map(lambda n: Decimal(n).scaleb(-(t.scale or 0)))


@given(st.data(), st.sampled_from(["+", "-", "*", "/", "<", ">=", "=", "<>"]), st.sampled_from(NUMBERS))
def test_plain_values_are_those_of_columns(data, operator, left) -> None:
    right = data.draw(st.sampled_from(NUMBERS))
    rex = make_call(operator, [InputRef(left, 0), InputRef(right, 1)])
    scalar = compiled(rex, [left, right])
    assert scalar is not None
    values = [data.draw(_values(left)), data.draw(_values(right))]
    try:
        plain = scalar(values)
    except Inexact:
        return
    frame = pl.DataFrame({"c0": [values[0]], "c1": [values[1]]}, schema={"c0": left.polars(), "c1": right.polars()})
    (whole,) = CalcTransform((rex,))(frame, 0)[column(0)].to_list()
    assert plain == whole
