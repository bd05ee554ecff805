"""The Abstract Syntax Tree of EXPLAIN, against what Flink 2.3 printed for the statements of ``logical_trees.txt``.

Flink numbers references to outer rows on and on in a session, so numbers are compared from the first of a statement.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from stateplan.planner import binding
from stateplan.planner.algebra.base import Rel
from stateplan.planner.logical_tree import _WRITERS
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


WRITTEN_OTHERWISE = {"Expand", "GroupWindowAggregate", "Snapshot"}
"""Relations that are parts of the tree of another one."""


def test_each_relation_that_sql_makes_has_a_tree() -> None:
    relations = {kind.__name__ for kind in relation_classes()}
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in Path(binding.__file__).parent.glob("*.py")]
    calls = [n.func for tree in modules for n in ast.walk(tree) if isinstance(n, ast.Call)]
    made = {name.id for name in calls if isinstance(name, ast.Name) and name.id in relations}
    assert len(made) > 10
    lacking = made - {kind.__name__ for kind in _WRITERS} - WRITTEN_OTHERWISE
    assert not lacking, f"EXPLAIN fails for {lacking}: add them to _WRITERS of planner/logical_tree.py"


def relation_classes() -> Iterator[type[Rel]]:
    """The classes of relations."""
    kinds = [Rel]
    while kinds:
        subclasses = kinds.pop().__subclasses__()
        kinds += subclasses
        yield from subclasses
