"""Conditions on their way to a source: in conjunctive normal form, without work for what is in it already."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.types import BOOLEAN, INT
from stateplan.functions.rex import InputRef, Literal, Rex
from stateplan.planner.expressions.ops import and_, call, not_, or_
from stateplan.planner.expressions.sarg import Range, RangeSet
from stateplan.planner.passes import scans
from stateplan.planner.passes.scans import MOST_LEVELS, to_cnf
from stateplan.session.environment import TableEnvironment


def equals(field: int, value: int) -> Rex:
    return call("=", [InputRef(INT, field), Literal(INT, value)], BOOLEAN)


def test_a_long_in_is_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    condition = or_([equals(0, value) for value in range(300)])
    steps: list[Rex] = []
    original = scans._cnf

    def counted(rex: Rex, limit: int) -> Rex:
        steps.append(rex)
        return original(rex, limit)

    monkeypatch.setattr(scans, "_cnf", counted)
    assert to_cnf(condition) == condition
    assert len(steps) == 1


def test_other_disjunctions_are_distributed() -> None:
    a, b, c = equals(0, 1), equals(1, 2), equals(2, 3)
    assert to_cnf(or_([a, and_([b, c])])) == and_([or_([a, b]), or_([a, c])])
    assert to_cnf(or_([a, not_(and_([b, c]))])) == or_([a, to_cnf(not_(and_([b, c])))])


@pytest.mark.parametrize(("values", "is_pushed"), [(MOST_LEVELS - 1, True), (MOST_LEVELS + 1, False), (3000, False)])
def test_a_source_gets_no_condition_of_many_levels(values: int, is_pushed: bool) -> None:
    environment = TableEnvironment.create()
    environment.execute_sql(
        "CREATE TABLE t (a INT) WITH ('connector' = 'filesystem', 'path' = '/data/t', 'format' = 'json')"
    )
    environment.execute_sql("CREATE TABLE s (a INT) WITH ('connector' = 'blackhole')")
    numbers = ", ".join(str(2 * n) for n in range(values))
    plan = environment.compile_plan_sql(f"INSERT INTO s SELECT a FROM t WHERE a IN ({numbers})").as_json_string()
    assert ('"FilterPushDown",\n' in plan.replace(" ", "")) is is_pushed
    assert "SEARCH" in plan, "the filter is above the source in any case"


@given(st.lists(st.tuples(st.sampled_from(["=", "<", ">", "<=", ">=", "<>"]), st.integers(0, 6)), max_size=8))
def test_ranges_hold_the_values_of_their_comparisons(comparisons: list[tuple[str, int]]) -> None:
    python = {"=": "==", "<>": "!="}
    ranges = RangeSet(lambda value: value)
    for comparison, value in comparisons:
        for one in Range.of(comparison, value):
            ranges.add(one)
    for number in (n / 2 for n in range(-1, 14)):
        expected = any(eval(f"{number} {python.get(op, op)} {value}") for op, value in comparisons)
        assert sum(holds(r, number) for r in ranges.ranges) == expected, "in one range, or in none"


def holds(r: Range, number: float) -> bool:
    above = r.lower is None or number > r.lower or (number == r.lower and r.lower_closed)
    return above and (r.upper is None or number < r.upper or (number == r.upper and r.upper_closed))
