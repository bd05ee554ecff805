"""SQL that scripts have from other tools and databases: what Flink takes is taken, and the rest says what to write."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import SqlError, StateplanError
from stateplan.session.environment import TableEnvironment

ADDRESSES = "id INT, a ROW<city STRING, zip STRING NOT NULL>, r ARRAY<ROW<x INT>>, m MAP<STRING, ROW<q INT>>"


def environment(folder: Path, columns: str, rows: list[dict[str, object]]) -> TableEnvironment:
    (folder / "t.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = TableEnvironment.create()
    env.execute_sql(
        f"CREATE TABLE t ({columns}) WITH ('connector' = 'filesystem', 'path' = '{folder / 't.json'}', "
        "'format' = 'json')"
    )
    return env


def rows(env: TableEnvironment, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in env.execute_sql(query).collect()]


def test_fields_of_a_row_are_read_by_name_and_by_position(tmp_path: Path) -> None:
    """The rows are Flink's; the last one has no value anywhere."""
    data: list[dict[str, object]] = [
        {"id": 1, "a": {"city": "Oslo", "zip": "1"}, "r": [{"x": 3}], "m": {"k": {"q": 7}}},
        {"id": 2, "a": None, "r": None, "m": None},
    ]
    env = environment(tmp_path, ADDRESSES, data)
    query = "SELECT id, a['city'], a['zip'], a[2], r[1]['x'], r[1][1], m['k']['q'] FROM t"
    assert rows(env, query) == [(1, "Oslo", "1", "1", 3, 3, 7), (2, None, None, None, None, None, None)]
    assert rows(env, "SELECT id FROM t WHERE a['city'] LIKE '%o%'") == [(1,)]
    assert rows(env, "SELECT a['city'], COUNT(*) FROM t WHERE id = 1 GROUP BY a['city']") == [("Oslo", 1)]
    assert rows(env, "SELECT ROW(1, 'a')[1], CAST(ROW(1, 'b') AS ROW<x INT, y STRING>)['y'] FROM t LIMIT 1") == [
        (1, "b")
    ]


def test_a_name_stays_an_access_by_item_and_a_position_is_one_of_the_field() -> None:
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE TABLE t ({ADDRESSES}) WITH ('connector' = 'datagen')")
    assert "select=[ITEM(a, 'city') AS EXPR$0, ITEM(ITEM(r, 1), 'x') AS EXPR$1, ITEM(r, 1).x AS EXPR$2]" in (
        env.explain_sql("SELECT a['city'], r[1]['x'], r[1][1] FROM t")
    )


@pytest.mark.parametrize("index", ["'City'", "'nope'", "0", "3", "-1", "id", "1 + 1"])
def test_what_means_no_field_of_a_row_is_refused(index: str, tmp_path: Path) -> None:
    env = environment(tmp_path, ADDRESSES, [])
    with pytest.raises(SqlError) as refused:
        env.explain_sql(f"SELECT a[{index}] FROM t")
    assert refused.value.code == "SQL203"
    assert "'city', 'zip'" in str(refused.value)


def test_character_sets_are_read_and_mean_nothing(tmp_path: Path) -> None:
    columns = "id INT, n VARCHAR(2147483647) CHARACTER SET `UTF-16LE` NOT NULL, h CHAR(3) CHARACTER SET `UTF-16LE`"
    env = environment(tmp_path, columns, [{"id": 1, "n": "é", "h": "abc"}])
    assert rows(env, "SELECT n || CAST(h AS VARCHAR(10) CHARACTER SET `UTF-16LE`) FROM t") == [("éabc",)]


def test_the_last_of_doubled_options_counts() -> None:
    env = TableEnvironment.create()
    result = env.execute_sql(
        "CREATE TABLE t (id INT) WITH ('connector' = 'filesystem', 'path' = '/x', 'format' = 'json', 'format' = 'csv')"
    )
    assert result.notes == ("the option 'format' is given twice; the last value counts",)
    assert "'format' = 'csv'" in rows(env, "SHOW CREATE TABLE t")[0][0]  # type: ignore[operator]
    assert env.execute_sql("ALTER TABLE t SET ('path' = '/y', 'path' = '/z')").notes


def test_texts_may_have_the_character_set_that_calcite_writes(tmp_path: Path) -> None:
    env = environment(tmp_path, "id INT", [{"id": 1}])
    query = "SELECT _UTF-16LE'it''s' || _utf-16le'é' || _UTF8'n' FROM t WHERE _UTF-16LE'a' IN (_UTF-16LE'a', 'b')"
    assert rows(env, query) == [("it'sén",)]


def test_with_recursive_is_for_queries_that_do_not_read_themselves(tmp_path: Path) -> None:
    env = environment(tmp_path, "id INT", [{"id": 1}])
    assert rows(env, "WITH RECURSIVE q AS (SELECT id FROM t) SELECT * FROM q") == [(1,)]
    with pytest.raises(SqlError, match="reads itself"):
        env.explain_sql("WITH RECURSIVE q (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM q WHERE n < 5) SELECT * FROM q")


@pytest.mark.parametrize(
    ("statement", "code", "says"),
    [
        ("SELECT id::STRING FROM t", "SQL003", "CAST(x AS type)"),
        ("SELECT id FROM t WHERE id == 1", "SQL003", "expected: ="),
        ("SELECT NVL(id, 1) FROM t", "SQL200", "COALESCE"),
        ("SELECT DATE_ADD(CURRENT_DATE, 1) FROM t", "SQL200", "INTERVAL '1' DAY"),
        ("SELECT STRING_AGG('a', ',') FROM t", "SQL200", "LISTAGG"),
        ("SELECT * EXCEPT (id) FROM t", "SQL004", "name the columns"),
        ("SELECT t.* EXCLUDE (id) FROM t", "SQL004", "name the columns"),
        ("SELECT TOP 5 id FROM t", "SQL004", "LIMIT 5"),
        ("SELECT id FROM t LIMIT 5, 10", "SQL004", "LIMIT count OFFSET start"),
        ("SELECT id FROM t WHERE 'a' ILIKE 'A'", "SQL001", "LOWER(s) LIKE LOWER(p)"),
        ("SELECT 'a' RLIKE 'a' FROM t", "SQL001", "REGEXP(s, 'pattern')"),
        ("SELECT 'a' REGEXP 'a' FROM t", "SQL001", "REGEXP(s, 'pattern')"),
        ("SELECT id FROM t WHERE 'a' ~ 'a'", "SQL003", "REGEXP(s, 'pattern')"),
        ("SELECT id ^ 2 FROM t", "SQL003", "POWER(x, y)"),
        ("SELECT BOOL_AND(id > 1) FROM t", "SQL200", "MIN(condition)"),
        ("SELECT TRY_CONVERT(INT, 'a') FROM t", "SQL200", "TRY_CAST(x AS type)"),
        ("SELECT 'a' -> 'b' FROM t", "SQL001", "JSON_VALUE(s, '$.a')"),
        ("SELECT 'a' ->> 'b' FROM t", "SQL001", "JSON_VALUE(s, '$.a')"),
        ("SELECT DATEDIFF(DAY, CURRENT_DATE, CURRENT_DATE) FROM t", "SQL200", "TIMESTAMPDIFF(DAY, a, b)"),
        ("SELECT DATE_TRUNC(MONTH, CURRENT_DATE) FROM t", "SQL200", "FLOOR(t TO HOUR)"),
        ("SELECT CONVERT(VARCHAR, id) FROM t", "SQL200", "CAST(x AS type)"),
        ("SELECT UPPER(DAY) FROM t", "SQL008", "`DAY`"),
        ("SELECT NOW() - INTERVAL '1 day' FROM t", "SQL001", "INTERVAL '1' DAY"),
        ("SELECT NOW() - INTERVAL '90 minutes' FROM t", "SQL001", "INTERVAL '90' MINUTE"),
        ("SELECT x FROM t LATERAL VIEW EXPLODE(ARRAY[1]) v AS x", "SQL001", "CROSS JOIN UNNEST"),
        ("SELECT CAST(id AS TEXT) FROM t", "SQL005", "write STRING"),
        ("CREATE TABLE u (x INT64) WITH ('connector' = 'print')", "SQL005", "write BIGINT"),
        ("DELETE FROM t WHERE id = 1", "SQL004", "a job deletes rows"),
        ("UPDATE t SET id = 1", "SQL004", "INSERT INTO"),
        ("TRUNCATE TABLE t", "SQL004", "where they are kept"),
        ("FROM t", "SQL004", "write SELECT * FROM"),
        ("SUMMARIZE t", "SQL004", "MIN(x), MAX(x)"),
        ("SELECT * FROM 'orders/*.json'", "SQL004", "'connector' = 'filesystem'"),
        ("SELECT * FROM t JOIN 'orders.json' AS o ON TRUE", "SQL004", "'connector' = 'filesystem'"),
    ],
)
def test_words_of_other_databases_say_what_to_write(statement: str, code: str, says: str, tmp_path: Path) -> None:
    env = environment(tmp_path, "id INT", [])
    with pytest.raises(StateplanError) as refused:
        env.execute_sql(statement)
    assert refused.value.code == code
    assert says in str(refused.value)


def test_columns_and_queries_may_have_the_names_of_such_words(tmp_path: Path) -> None:
    env = environment(tmp_path, "top INT", [{"top": 1}])
    assert rows(env, "SELECT top FROM t") == [(1,)]
    assert rows(env, "SELECT * FROM t EXCEPT (SELECT 2)") == [(1,)]


def test_columns_of_a_star_that_are_there_twice_have_flinks_names(tmp_path: Path) -> None:
    env = environment(tmp_path, "id INT, a INT, a0 INT", [{"id": 1, "a": 2, "a0": 3}])
    both = "SELECT * FROM t AS x JOIN t AS y ON x.id = y.id"
    assert env.sql_query(both).get_schema().get_field_names() == ["id", "a", "a0", "id0", "a1", "a00"]
    assert rows(env, f"SELECT id0, a1, a00 FROM ({both})") == [(1, 2, 3)]
    env.execute_sql(f"CREATE VIEW v AS {both}")
    assert [row[0] for row in env.execute_sql("DESCRIBE v").collect()] == ["id", "a", "a0", "id0", "a1", "a00"]
