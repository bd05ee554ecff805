"""The Abstract Syntax Tree of EXPLAIN, against what Flink 2.3 printed for the statements of ``logical_trees.txt``.

Flink numbers references to outer rows on and on in a session, so numbers are compared from the first of a statement.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from tests.planner.conftest import numbered
from tests.support.cases import SESSION

Case = tuple[int, str, str]


def cases() -> list[Case]:
    """The statements with the number of the definitions that they need, and the trees."""
    text = (Path(__file__).parent / "logical_trees.txt").read_text(encoding="utf-8")
    found, tables = [], -1
    for block in text.split("=== ")[1:]:
        statement, _, tree = block.partition("\n")
        tables += statement == "tables"
        found.append((tables, statement, tree.rstrip("\n")))
    return found


@cache
def session(tables: int) -> TableEnvironment:
    env = TableEnvironment.create(SESSION)
    definitions = next(text for number, statement, text in cases() if (number, statement) == (tables, "tables"))
    for definition in definitions.split(";\n"):
        env.execute_sql(definition)
    return env


@pytest.mark.parametrize("case", [c for c in cases() if c[1] != "tables"], ids=lambda case: case[1][:80])
def test_the_tree_is_flinks(case: Case) -> None:
    tables, statement, theirs = case
    [(text,)] = session(tables).execute_sql(statement).rows
    ours = re.fullmatch(r"== Abstract Syntax Tree ==\n(.*?)\n\n== Optimized Physical Plan.*", str(text), re.S)
    assert ours is not None
    assert numbered(ours[1]) == numbered(theirs)


def test_each_kind_of_relation_is_there() -> None:
    """What ``logical_trees.txt`` is a test of."""
    whole = "".join(tree for _, _, tree in cases())
    kinds = (
        "Aggregate Correlate Filter Intersect Join Match Minus Project Sink Snapshot Sort TableFunctionScan TableScan"
    )
    for kind in (*kinds.split(), "Union", "Values", "WatermarkAssigner"):
        assert f"Logical{kind}(" in whole, kind
    for words in (
        "Uncollect",
        "groups=[[",
        "variablesSet=[[",
        " OVER (",
        "EXISTS({",
        "$SCALAR_QUERY({",
        "stateTtlHints=",
    ):
        assert words in whole, words
