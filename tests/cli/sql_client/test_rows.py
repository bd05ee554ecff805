"""The table that a changelog makes, against one that is worked out row by row."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from stateplan.cli.sql_client.rows import CurrentRows, LastChanges
from stateplan.common.changelog import RowKind

I, U_, U, D = RowKind  # noqa: E741 - as Flink prints them


@pytest.mark.parametrize("seed", range(20))
def test_changes_make_the_rows(seed: int) -> None:
    rng = random.Random(seed)
    table, expected = CurrentRows(10**6), list[tuple[str, ...]]()
    for _ in range(300):
        row = (str(rng.randrange(6)), None if rng.random() < 0.1 else "x")
        which = rng.random()
        if which < 0.5 or not expected:
            expected.append(row)  # type: ignore[arg-type]
            table.apply([(I, row)])
        elif which < 0.7:
            table.apply([(D, expected.pop(rng.randrange(len(expected))))])
        else:
            place = rng.randrange(len(expected))
            old, expected[place] = expected[place], row  # type: ignore[assignment]
            table.apply([(U_, old), (U, row)])
        assert Counter(table.page(0, 1000)) == Counter(expected)
        assert len(table) == len(expected)


def test_an_update_stays_in_its_place() -> None:
    table = CurrentRows(10)
    table.apply([(I, ("a", "1")), (I, ("b", "1")), (U_, ("a", "1")), (U, ("a", "2"))])
    assert table.page(0, 9) == [("a", "2"), ("b", "1")]
    table.apply([(U_, ("a", "2")), (U_, ("b", "1")), (U, ("a", "3")), (U, ("b", "2"))])
    assert table.page(0, 9) == [("a", "3"), ("b", "2")]


def test_a_row_is_gone_between_its_old_and_its_new_values() -> None:
    table = CurrentRows(10)
    table.apply([(I, ("a",)), (I, ("b",)), (U_, ("a",))])
    assert (table.page(0, 9), len(table)) == ([("b",)], 1)
    table.apply([(I, ("c",))])  # a filter kept the new values back
    assert table.page(0, 9) == [("b",), ("c",)]
    table.apply([(U, ("d",))])
    assert table.page(0, 9) == [("b",), ("c",), ("d",)]


def test_what_is_not_there_cannot_be_retracted() -> None:
    table = CurrentRows(10)
    table.apply([(D, ("a",)), (U_, ("a",)), (U, ("b",)), (D, ("c",))])
    assert table.page(0, 9) == [("b",)]


def test_the_oldest_rows_go_first() -> None:
    table = CurrentRows(3)
    table.apply((I, (str(i),)) for i in range(10))
    assert (table.page(0, 9), table.drop_count) == ([("7",), ("8",), ("9",)], 7)
    table.apply([(D, ("2",)), (D, ("8",)), (I, ("x",))])
    assert table.page(0, 9) == [("7",), ("9",), ("x",)]
    assert table.page(1, 1) == [("9",)]


def test_rows_that_are_equal() -> None:
    table = CurrentRows(2000)
    table.apply((I, ("x",)) for _ in range(10_000))
    assert (len(table), table.drop_count) == (2000, 8000)
    table.apply((D, ("x",)) for _ in range(2001))
    assert len(table) == 0
    table.apply([(I, ("x",))])
    assert table.page(0, 5) == [("x",)]


def test_the_last_changes() -> None:
    changes = LastChanges(2)
    changes.apply([(I, ("a",)), (U_, ("a",)), (U, (None,))])
    assert changes.page(0, 9) == [("-U", "a"), ("+U", None)]
    assert (len(changes), changes.drop_count) == (2, 1)
