"""What the trees of queries look like: the part of the dialect that the planner builds on."""

from __future__ import annotations

import pytest
from sqlglot import exp

from stateplan.planner.dialect import function_name, nodes, parse, parse_expression, parse_query
from stateplan.planner.positions import place_of, span_of, text_of


def tree(text: str) -> str:
    """A tree on one line: class names and parts, without positions."""

    def show(value: object) -> str:
        if isinstance(value, exp.Expr):
            parts = ", ".join(f"{k}={show(v)}" for k, v in value.args.items() if v not in (None, [], False))
            return f"{type(value).__name__}({parts})"
        if isinstance(value, list):
            return "[" + ", ".join(show(v) for v in value) + "]"
        return repr(value)

    return show(parse_expression(text))


COLUMN_A = "Column(this=Identifier(this='a'))"


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("NOT a IS NULL", f"Not(this=Is(this={COLUMN_A}, expression=Null()))"),
        (
            "a = 1 IS TRUE",
            "Is(this=EQ(this=Column(this=Identifier(this='a')), expression=Literal(this='1')), "
            "expression=Boolean(this=True))",
        ),
        ("a IS JSON", f"Is(this={COLUMN_A}, expression=Var(this='JSON VALUE'))"),
        ("a IS NOT JSON ARRAY", f"Is(this={COLUMN_A}, expression=Var(this='NOT JSON ARRAY'))"),
        (
            "JSON_VALUE(a, '$' DEFAULT 1 ON EMPTY NULL ON ERROR)",
            f"Anonymous(this='JSON_VALUE', expressions=[{COLUMN_A}, Literal(this='$', is_string=True), "
            "JsonDefault(this=Literal(this='1'), event='EMPTY'), Var(this='NULL ON ERROR')])",
        ),
        (
            "JSON_OBJECT('k' VALUE a)",
            "Anonymous(this='JSON_OBJECT', expressions=[JSONKeyValue(this=Literal(this='k', is_string=True), "
            f"expression={COLUMN_A})])",
        ),
        ("COUNT(*)", "Anonymous(this='COUNT', expressions=[Star()])"),
        ("count(DISTINCT a)", f"Anonymous(this='count', expressions=[Distinct(expressions=[{COLUMN_A}])])"),
        ("COALESCE(a, 1)", f"Anonymous(this='COALESCE', expressions=[{COLUMN_A}, Literal(this='1')])"),
        ("CURRENT_DATE", "Anonymous(this='CURRENT_DATE')"),
        ("EXTRACT(DAY FROM a)", f"Anonymous(this='EXTRACT', expressions=[Var(this='DAY'), {COLUMN_A}])"),
        ("TRIM(a)", f"Anonymous(this='TRIM', expressions=[{COLUMN_A}])"),
        (
            "TRIM('x' FROM a)",
            f"Anonymous(this='TRIM', expressions=[Var(this='BOTH'), Literal(this='x', is_string=True), {COLUMN_A}])",
        ),
        ("CEIL(a TO DAY)", f"Anonymous(this='CEIL', expressions=[{COLUMN_A}, Var(this='DAY')])"),
        ("a || 'x'", f"DPipe(this={COLUMN_A}, expression=Literal(this='x', is_string=True))"),
        ("a IN (1)", f"In(this={COLUMN_A}, expressions=[Literal(this='1')])"),
        ("-1", "Neg(this=Literal(this='1'))"),
        ("DATE '2024-01-02'", "TypedLiteral(this=Literal(this='2024-01-02', is_string=True), kind='DATE')"),
        ("INTERVAL '5' SECOND", "Interval(this=Literal(this='5', is_string=True), unit=Var(this='SECOND'))"),
        ("f(x => a)", f"Anonymous(this='f', expressions=[Kwarg(this=Identifier(this='x'), expression={COLUMN_A})])"),
        ("a.b", "Column(this=Identifier(this='b'), table=Identifier(this='a'))"),
        ("(a)", f"Paren(this={COLUMN_A})"),
        ("(a, 1)", f"Tuple(expressions=[{COLUMN_A}, Literal(this='1')])"),
        ("a - 1 - 2", f"Sub(this=Sub(this={COLUMN_A}, expression=Literal(this='1')), expression=Literal(this='2'))"),
        (
            "a || 'x' + 1",
            f"Add(this=DPipe(this={COLUMN_A}, expression=Literal(this='x', is_string=True)), "
            "expression=Literal(this='1'))",
        ),
    ],
)
def test_shapes(text: str, shape: str) -> None:
    assert tree(text) == shape


def test_and_binds_tighter_than_or_and_not_tighter_than_and() -> None:
    node = parse_expression("a OR NOT b AND c")
    assert isinstance(node, exp.Or)
    assert isinstance(node.expression, exp.And)
    assert isinstance(node.expression.this, exp.Not)


def test_windows_filters_and_their_order() -> None:
    node = parse_expression("SUM(a) FILTER (WHERE b > 1) OVER (PARTITION BY c ORDER BY d DESC)")
    assert isinstance(node, exp.Window)
    assert isinstance(node.this, exp.Filter)
    assert function_name(node.this.this) == "SUM"
    [ordered] = node.args["order"].expressions
    assert (ordered.args["desc"], ordered.args["nulls_first"]) == (True, False)


def test_hints_of_select_and_table_keep_their_places() -> None:
    text = "SELECT /*+ STATE_TTL('a'='1 d', b = '2 d') */ x FROM t /*+ OPTIONS('k'='v') */ AS a"
    query = parse_query(text)
    [state_ttl] = query.args["hint"].expressions
    assert state_ttl.name == "STATE_TTL"
    assert [(e.this.name, e.expression.name) for e in state_ttl.expressions] == [("a", "1 d"), ("b", "2 d")]
    assert text_of(state_ttl.expressions[0].this, text) == "'a'"
    table = query.args["from_"].this
    [hint] = table.args["hints"]
    assert text_of(hint, text) == "/*+ OPTIONS('k'='v') */"
    assert table.alias == "a"


def test_joins_and_time_travel() -> None:
    query = parse_query("SELECT 1 FROM o LEFT JOIN r FOR SYSTEM_TIME AS OF o.ts AS x ON o.k = x.k, u CROSS JOIN w")
    left, comma, cross = query.args["joins"]
    assert (left.side, left.kind, left.this.alias) == ("LEFT", "", "x")
    assert left.this.args["version"].expression.name == "ts"
    assert (comma.side, comma.kind, comma.args.get("on")) == ("", "", None)
    assert cross.kind == "CROSS"


def test_insert_parts() -> None:
    [insert] = parse("INSERT INTO s (a, b) SELECT 1, 2 ON CONFLICT DO DEDUPLICATE")
    assert isinstance(insert, exp.Insert)
    assert [c.name for c in insert.this.expressions] == ["a", "b"]
    assert insert.this.this.name == "s"
    assert insert.args["conflict"].args["action"].name == "DEDUPLICATE"


def test_order_of_a_union_belongs_to_the_union() -> None:
    union = parse_query("SELECT a FROM t UNION ALL SELECT b FROM u ORDER BY a LIMIT 1")
    assert isinstance(union, exp.Union)
    assert union.args["order"] is not None
    assert union.args["limit"] is not None
    assert union.args["distinct"] is False


def test_create_table_parts() -> None:
    [table] = parse("CREATE TABLE t (a INT NOT NULL, b AS a + 1, WATERMARK FOR b AS b, PRIMARY KEY (a) NOT ENFORCED)")
    assert isinstance(table, nodes.CreateTable)
    assert [type(c).__name__ for c in table.args["columns"]] == ["PhysicalColumn", "ComputedColumn"]
    assert [k.expressions[0].name for k in table.args["keys"]] == ["a"]
    assert [p.name for w in table.args["watermarks"] for p in w.expressions] == ["b"]


def test_every_node_of_a_tree_has_a_span_inside_the_text() -> None:
    text = (
        "SELECT a.x, COUNT(*) AS n, CASE WHEN b THEN 1 END FROM t AS a JOIN u ON a.x = u.x "
        "WHERE c IN (1, 2) AND d LIKE 'x' GROUP BY a.x HAVING SUM(e) > 1 ORDER BY n"
    )
    for node in parse_query(text).walk():
        span = span_of(node)
        assert span is not None
        assert 0 <= span[0] < span[1] <= len(text), node


def test_spans_cover_what_was_written() -> None:
    text = "SELECT 1;\n  SELECT a + b * 2, UPPER(c) FROM `my t`"
    statement = parse(text)[1]
    plus, call = statement.expressions
    assert text_of(plus, text) == "a + b * 2"
    assert text_of(plus.expression, text) == "b * 2"
    assert text_of(call, text) == "UPPER"
    assert text_of(statement.args["from_"].this, text) == "`my t`"
    assert text_of(statement, text) == "SELECT a + b * 2, UPPER(c) FROM `my t`"
    place = place_of(call.expressions[0], text, "x.sql")
    assert (place.file, place.line, place.column, place.length) == ("x.sql", 2, 27, 1)


def test_a_node_without_a_mark_takes_the_place_of_what_is_below_or_around_it() -> None:
    text = "SELECT a + b FROM t"
    query = parse_query(text)
    [plus] = query.expressions
    built = exp.Alias(this=plus.copy(), alias=exp.to_identifier("x"))
    assert text_of(built, text) == "a + b"
    bare = exp.Null()
    plus.set("expression", bare)
    assert text_of(bare, text) == "a + b"
    assert place_of(exp.Null(), text, "f").line is None


def test_words_that_are_columns() -> None:
    for text in ("user", "Current_User", "SESSION_USER", "system_user", "current_path"):
        column = parse_expression(text)
        assert isinstance(column, exp.Column) and column.name == text
    assert isinstance(parse_expression("current_date"), exp.Anonymous)
