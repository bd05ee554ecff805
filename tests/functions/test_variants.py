"""VARIANT in SQL, as queries of this process: what Flink 2.3 answers."""

from __future__ import annotations

import polars as pl
import pytest

from stateplan import TableEnvironment
from stateplan.common.errors import StateplanError
from stateplan.common.types import VARIANT, parse_type, type_from_json
from stateplan.common.values.codecs import codec

_TEXTS = """(VALUES ('{"a":1,"b":2}'), ('{"b":2, "a":1}'), ('1'), ('1.00'), ('1e0'), ('[1, 2]'), (CAST(NULL AS STRING)),
    ('null')) AS t(x)"""


@pytest.fixture(scope="module")
def env() -> TableEnvironment:
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE TEMPORARY VIEW vs AS SELECT x, PARSE_JSON(x) AS v FROM {_TEXTS}")
    return env


def _rows(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return env.sql_query(query).to_polars().rows()


def _one(env: TableEnvironment, expression: str) -> object:
    return _rows(env, f"SELECT {expression}")[0][0]


def test_the_type_in_plans_and_descriptions(env: TableEnvironment) -> None:
    assert parse_type("VARIANT NOT NULL") == VARIANT.not_null() == type_from_json("VARIANT NOT NULL")
    assert parse_type("ARRAY<VARIANT>").to_json() == "ARRAY<VARIANT>"
    described = list(env.execute_sql("DESCRIBE vs").collect())
    assert [row[1] for row in described] == ["STRING", "VARIANT"]
    assert _one(env, "TYPEOF(PARSE_JSON('1'))") == "VARIANT NOT NULL"
    assert _one(env, "TYPEOF(TRY_PARSE_JSON('1'))") == "VARIANT"
    assert _one(env, "TYPEOF(PARSE_JSON('{}')['a'])") == "VARIANT"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ('PARSE_JSON(\'{"b":1, "a":[1, 2.50, "x", null, true]}\')', '{"a":[1,2.5,"x",null,true],"b":1}'),
        ("PARSE_JSON('{\"a\":[7, 8]}')['a'][2]", "8"),
        ("PARSE_JSON('{\"a\":[7, 8]}')['a'][3]", None),
        ("PARSE_JSON('{\"a\":[7, 8]}')['A']", None),
        ("PARSE_JSON('[null]')[1] IS NULL", False),
        ("PARSE_JSON('null') IS NULL", False),
        ("PARSE_JSON(CAST(NULL AS STRING)) IS NULL", True),
        ("TRY_PARSE_JSON('{bad')", None),
        ('TRY_PARSE_JSON(\'{"a":1,"a":2}\')', None),
        ('PARSE_JSON(\'{"a":1,"a":2}\', TRUE)', '{"a":2}'),
        ("CAST(MAP['k', PARSE_JSON('{\"a\":1}')] AS STRING)", '{k={"a":1}}'),
        ("JSON_VALUE(PARSE_JSON('{\"a\":1}'), '$.a')", "1"),
        ("JSON_QUERY(PARSE_JSON('{\"a\":[1]}'), '$.a')", "[1]"),
        ("PARSE_JSON('5') = PARSE_JSON('5')", True),
        ("PARSE_JSON('5') IN (PARSE_JSON('6'), PARSE_JSON('5'))", True),
        ("PARSE_JSON('[7,8]')[CAST(2 AS TINYINT)]", "8"),
        ('JSON_STRING(PARSE_JSON(\'{"b":1,"a":2}\'))', '{"a":2,"b":1}'),
        ("JSON_OBJECT('k' VALUE PARSE_JSON('{\"a\":1}'))", '{"k":{"a":1}}'),
        ("JSON_ARRAY(PARSE_JSON('\"s\"'), 's')", '["s","s"]'),
        ("COALESCE(CAST(NULL AS VARIANT), PARSE_JSON('6'))", "6"),
        ("CASE WHEN TRUE THEN PARSE_JSON('5') ELSE NULL END", "5"),
    ],
)
def test_values(env: TableEnvironment, expression: str, value: object) -> None:
    assert _one(env, expression) == value


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        ("PARSE_JSON('{bad')", "DATA302"),
        ('PARSE_JSON(\'{"a":1,"a":2}\')', "DATA302"),
        ("PARSE_JSON('5')['a']", "DATA302"),
        ("PARSE_JSON('{}')[1]", "DATA302"),
        ("PARSE_JSON('{}')[TRUE]", "SQL203"),
        ("PARSE_JSON('{}')[UPPER(x)]", "SQL203"),
        ("PARSE_JSON('{}').a", "SQL100"),
        ("PARSE_JSON(5)", "SQL203"),
        ("CAST(PARSE_JSON('5') AS INT)", "SQL204"),
        ("CAST(PARSE_JSON('5') AS STRING)", "SQL204"),
        ("CAST(ARRAY[PARSE_JSON('5')] AS ARRAY<STRING>)", "SQL204"),
        ("PARSE_JSON('5') < PARSE_JSON('6')", "SQL203"),
        ("PARSE_JSON('5') BETWEEN PARSE_JSON('5') AND PARSE_JSON('6')", "SQL203"),
        ("PARSE_JSON('5') = 5", "SQL203"),
        ("PARSE_JSON('1') IS JSON", "SQL203"),
        ("CAST('5' AS VARIANT)", "SQL204"),
        ("PARSE_JSON('5') + 1", "SQL203"),
    ],
)
def test_refusals_and_failures(env: TableEnvironment, expression: str, code: str) -> None:
    with pytest.raises(StateplanError) as caught:
        _rows(env, f"SELECT {expression} FROM (VALUES ('a')) AS t(x)")
    assert caught.value.code == code


def test_values_in_state(env: TableEnvironment) -> None:
    joined = _rows(env, "SELECT a.x, b.v FROM vs a JOIN vs b ON a.x = b.x WHERE a.x LIKE '{%'")
    assert sorted(joined) == [('{"a":1,"b":2}', '{"a":1,"b":2}'), ('{"b":2, "a":1}', '{"a":1,"b":2}')]
    assert _rows(env, "SELECT FIRST_VALUE(v), LAST_VALUE(v), COUNT(v) FROM vs") == [('{"a":1,"b":2}', "null", 7)]


@pytest.mark.parametrize("kind", ["json", "csv", "raw", "avro", "parquet"])
def test_no_format_holds_it(env: TableEnvironment, kind: str) -> None:
    env.execute_sql(
        f"CREATE TABLE f_{kind} (v VARIANT) WITH ('connector'='filesystem','path'='/tmp/v','format'='{kind}')"
    )
    with pytest.raises(StateplanError, match="VARIANT") as caught:
        env.execute_sql(f"EXPLAIN INSERT INTO f_{kind} SELECT PARSE_JSON('1')")
    assert caught.value.code == "CAT102"


def test_a_result_over_http_is_the_text() -> None:
    from stateplan.common.values.atomic import FieldStyle

    column = pl.DataFrame({"v": ['{"a":"x"}', "null", None]})
    shown = column.select(codec(VARIANT).json(pl.col("v"), FieldStyle())).to_series().to_list()
    assert shown == ['"{\\"a\\":\\"x\\"}"', '"null"', None]
