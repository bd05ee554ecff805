"""Casts with ``table.exec.legacy-cast-behaviour``: as they were before Flink 1.15, and as Flink 2.3 still has them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from tests.functions.corpus.answers import Here
from tests.functions.corpus.reading import LEGACY_CASTS, LEGACY_RESULTS, different, same, shown
from tests.support.local import printed

_AS_ELSEWHERE = "CAST(xn AS DECIMAL(10, 2))"
"""A cast that differs for the same reason as other casts of ``xn`` to DECIMAL."""


def _differs(expression: str) -> bool:
    texts = (expression, f"TRY_{expression}")
    return expression == _AS_ELSEWHERE or any(("UTC", text) in different() for text in texts)


def _environment(**options: str) -> TableEnvironment:
    return TableEnvironment.create({"table.local-time-zone": "UTC", **LEGACY_CASTS, **options})


def _rows(query: str) -> list[tuple[object, ...]]:
    return _environment().sql_query(query).to_polars().rows()


def test_casts_of_edge_values_are_those_of_flink(tmp_path: Path) -> None:
    here = Here(tmp_path)
    for key, text in LEGACY_CASTS.items():
        here.env.execute_sql(f"SET '{key}' = '{text}'")
    results = [r for r in shown(LEGACY_RESULTS) if "values" in r]
    equal = [r for r in results if not _differs(r["expression"])]
    assert len(equal) > 700 and len(results) - len(equal) < 30
    wrong = []
    for start in range(0, len(equal), 40):
        part = equal[start : start + 40]
        for result, answer in zip(part, here.answers("UTC", [r["expression"] for r in part]), strict=True):
            text = result["expression"]
            is_same = isinstance(answer, list) and all(
                same(*pair, text) for pair in zip(result["values"], answer, strict=True)
            )
            if not is_same:
                wrong.append((text, answer))
    assert wrong == []


def test_a_text_that_cannot_be_cast_is_null() -> None:
    texts = "(VALUES ('abc'), (CAST(NULL AS STRING)), ('5')) AS t(x)"
    columns = "CAST(x AS INT), CAST(x AS INT) + 1, COALESCE(CAST(x AS INT), 7), CAST(x AS INT) IS NULL"
    assert _rows(f"SELECT {columns} FROM {texts}") == [
        (None, None, 7, True),
        (None, None, 7, True),
        (5, 6, 5, False),
    ]
    nested = "CAST(ARRAY[x, '1'] AS ARRAY<INT>), CAST(ROW(x, '1') AS ROW<a INT, b INT>)"
    assert _rows(f"SELECT {nested} FROM {texts}")[0] == (None, None)
    assert _rows(f"SELECT SUM(CAST(x AS INT)), COUNT(CAST(x AS INT)) FROM {texts}") == [(5, 1)]


def test_texts_are_not_cut() -> None:
    texts = "(VALUES ('abc'), (CAST(NULL AS STRING))) AS t(x)"
    columns = "CAST(x AS VARCHAR(2)) || '.', CAST(x AS CHAR(2)) || '.', DECODE(CAST(x AS BINARY(2)), 'UTF-8')"
    assert _rows(f"SELECT {columns} FROM {texts}")[0] == ("abc.", "abc.", "abc")


def test_texts_of_booleans_and_rows() -> None:
    columns = "CAST(b AS STRING), CAST(ROW(1, b) AS STRING), CAST(ARRAY[b] AS STRING), CAST(MAP['a', i] AS STRING)"
    assert _rows(f"SELECT {columns} FROM (VALUES (TRUE, CAST(NULL AS INT))) AS t(b, i)") == [
        ("true", "(1,true)", "[true]", "{a=null}")
    ]


def test_constants_are_folded_where_the_option_changes_nothing() -> None:
    environment = _environment()
    columns = "CAST('5' AS INT) + 1, CAST('abc' AS CHAR(2)), CAST('abc' AS VARCHAR(2)) || 'x'"
    text = environment.explain_sql(f"SELECT {columns}")
    assert "6 AS EXPR$0" in text and "CAST('abc' AS CHAR(2)) AS EXPR$1" in text and "'abx'" not in text
    assert _rows(f"SELECT {columns}") == [(6, "abc", "abcx")]


def test_a_plan_runs_with_the_option_of_the_session(tmp_path: Path) -> None:
    """As in Flink, the plan does not contain the option."""
    rows = [{"@at": 1000 * n, "x": x, "rt": f"2026-01-01 00:00:0{n}"} for n, x in enumerate(("abc", "5"), start=1)]
    (tmp_path / "t.json").write_text("\n".join(map(json.dumps, rows)))
    environment = _environment()
    environment.execute_sql(
        "CREATE TABLE t (x STRING, rt STRING, n AS CAST(x AS INT), ts AS CAST(rt AS TIMESTAMP(3)), "
        f"WATERMARK FOR ts AS ts) WITH ('connector' = 'replay', 'path' = '{tmp_path}/t.json', 'format' = 'json')"
    )
    environment.execute_sql("CREATE TABLE snk (n INT, a INT) WITH ('connector' = 'print')")
    match = (
        "INSERT INTO snk SELECT n, a FROM t MATCH_RECOGNIZE (ORDER BY ts MEASURES CAST(A.x AS INT) AS n, B.n AS a "
        "PATTERN (A B) DEFINE A AS CAST(A.x AS INT) IS NULL)"
    )
    for insert, lines in (
        ("INSERT INTO snk SELECT n, 1 FROM t WHERE CAST(x AS INT) IS NULL OR n = 5", ["+I[null, 1]", "+I[5, 1]"]),
        (match, ["+I[null, 5]"]),
    ):
        graph = environment.compile_plan_sql(insert).document.graph
        assert "LEGACY" not in str(graph.to_json())
        assert printed(translate(graph, LEGACY_CASTS, 2)) == lines
        with pytest.raises(StateplanError, match="DATA301"):
            printed(translate(graph, {}, 2))
