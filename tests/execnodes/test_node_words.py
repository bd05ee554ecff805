"""What nodes say about themselves."""

from __future__ import annotations

import pytest

from stateplan.common.types import BIGINT, BOOLEAN, STRING, LogicalType, row_type
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.specs import split_identifier
from stateplan.functions.rex import Call, FieldAccess, InputRef, Literal
from stateplan.functions.rex_text import rex_text
from tests.execnodes.node_plans import frozen

TIMESTAMP = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", precision=3)


@pytest.mark.parametrize(
    ("node_type", "plan", "title", "words"),
    [
        ("stream-exec-deduplicate_1", "keep-first", "deduplicate", "keeps the first row by processing time of each id"),
        ("stream-exec-deduplicate_1", "keep-last", "deduplicate", "keeps the last row by processing time of each id"),
        ("stream-exec-group-aggregate_1", "append", "group-aggregate", "keeps COUNT(*) of each id"),
        ("stream-exec-group-aggregate_1", "distinct-filter", "group-aggregate",
         "keeps COUNT(*) FILTER (WHERE $f2), COUNT(DISTINCT amount) FILTER (WHERE $f4) of each product, id"),
        ("stream-exec-join_1", "left-condition", "join",
         "left outer joins left and right on left.id = right.id and (amount > level)"),
        ("stream-exec-exchange_1", "append", "exchange", "sends rows with the same id to the same task"),
        ("stream-exec-exchange_1", "cross", "exchange", "sends all rows to one task"),
        ("stream-exec-exchange_1", "cross", "join", "joins left and right, every row with every row"),
        ("stream-exec-union_1", "union-all", "union", "passes on the rows of its 2 inputs"),
        ("stream-exec-sink_2", "materialize", "sink",
         "writes name, level to default_catalog.default_database.levels as +I, -U, +U, -D, "
         "keeping the rows of each primary key"),
        ("stream-exec-table-source-scan_2", "identifier", "table-source-scan",
         "reads id, product of default_catalog.default_database.orders"),
        ("stream-exec-rank_1", "append-numbered", "rank",
         "keeps the first 3 rows of each a by b DESC, c ASC, numbered"),
        ("stream-exec-rank_1", "retract-offset", "rank", "keeps rows 2 to 3 of each k by v DESC, numbered"),
        ("stream-exec-limit_1", "append-offset", "limit", "keeps rows 3 to 5"),
        ("stream-exec-sort-limit_1", "retract", "sort-limit", "keeps the first 3 rows by v DESC"),
        ("stream-exec-calc_1", "expressions", "calc",
         "keeps rows where (SEARCH(id, {1, 2, 3, 4, 5}) AND product IS NOT NULL) and computes "
         "(id * 2) AS EXPR$0, CASE WHEN SEARCH(amount, {[1..5]}) THEN UPPER(product) "
         "WHEN (product LIKE 'a%') THEN NULL ELSE CAST(amount AS STRING) END AS EXPR$1"),
    ],
)  # fmt: skip
def test_words(node_type: str, plan: str, title: str, words: str) -> None:
    graph = ExecGraph.from_json(frozen(node_type, plan))
    assert words in [graph.describe(node) for node in graph.nodes if node.title == title]


@pytest.mark.parametrize(
    ("rex", "text"),
    [
        (InputRef(BIGINT, 1), "b"),
        (InputRef(BIGINT, 7), "$7"),
        (Literal(STRING, "it's"), "'it''s'"),
        (Literal(BIGINT, None), "NULL"),
        (Literal(BOOLEAN, True), "TRUE"),
        (Literal(LogicalType("DECIMAL", precision=3, scale=1), "15.3"), "15.3"),
        (Literal(LogicalType("INTERVAL_DAY_TIME", resolution="SECOND(6)"), "5000"), "INTERVAL '5' SECOND"),
        (Literal(LogicalType("DATE"), "2024-01-01"), "DATE '2024-01-01'"),
        (Call(BOOLEAN, (InputRef(BIGINT, 0),), "$IS NULL$1", "POSTFIX"), "a IS NULL"),
        (Call(BOOLEAN, (InputRef(BOOLEAN, 0),), "$NOT$1", "PREFIX"), "NOT a"),
        (Call(BIGINT, (), "$PROCTIME$1"), "PROCTIME()"),
        (Call(TIMESTAMP, (InputRef(STRING, 0),), "$CAST$1", "SPECIAL"), "CAST(a AS TIMESTAMP(3))"),
        (FieldAccess(BIGINT, "x", InputRef(row_type([("x", BIGINT)]), 0)), "a.x"),
    ],
)
def test_expressions(rex: InputRef, text: str) -> None:
    assert rex_text(rex, ("a", "b")) == text


@pytest.mark.parametrize(
    ("identifier", "parts"),
    [
        ("`c`.`d`.`t`", ("c", "d", "t")),
        ("c.d.t", ("c", "d", "t")),
        ("`a.b`.`x``y`.t", ("a.b", "x`y", "t")),
        ("`unclosed", ("unclosed",)),
        ("", ()),
    ],
)
def test_identifiers(identifier: str, parts: tuple[str, ...]) -> None:
    assert split_identifier(identifier) == parts
