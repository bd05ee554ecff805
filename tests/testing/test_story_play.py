"""Tests run in this process: rows, times, TTLs, restarts, and what is expected of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from tests.testing.stories import COUNT, JOIN, failure, holds, outcome


def test_a_join_obeys_the_ttl_of_each_side() -> None:
    story = f"""{JOIN}
-- test: t
-- given orders
--   | id | num |
--   | 1  | 20  |
-- given logistics
--   | id | target |
--   | 2  | Paris  |
-- advance 12 h
-- expect state join.left: 1 row
-- expect state join.right: 0 rows
-- given orders
--   | id | num |
--   | 2  | 30  |
-- expect rows
-- given logistics
--   | id | target |
--   | 1  | Berlin |
-- expect rows
--   | id | num | target |
--   | 1  | 20  | Berlin |
"""
    assert holds(story)
    assert not holds(story.replace("advance 12 h", "advance 11 h"))


def test_changes_come_in_and_go_out() -> None:
    story = COUNT.replace("num INT);\nCREATE", "num INT) WITH ('changelog-mode' = 'retract');\nCREATE", 1)
    assert holds(f"""{story}
-- test: t
-- given sales
--   | product | num |
--   | tea     | 2   |
-- given sales
--      | product | num |
--   -U | tea     | 2   |
--   +U | tea     | 5   |
-- expect changelog
--      | product | total |
--   +I | tea     | 5     |
-- given sales
--      | product | num |
--   -D | tea     | 5   |
-- expect changelog
--      | product | total |
--   -D | tea     | 5     |
-- expect table
""")


def test_a_catalog_of_files_gets_nothing(tmp_path: Path) -> None:
    story = f"""
CREATE CATALOG mine WITH ('type' = 'file', 'path' = '{tmp_path / "catalog"}');
CREATE TABLE mine.`default`.spare (x INT) WITH ('connector' = 'datagen');
{COUNT}
-- test: t
-- given sales
--   | product | num |
--   | tea     | 2   |
-- expect table
--   | product | total |
--   | tea     | 2     |
"""
    assert holds(story)
    assert holds(story), "the tables of the first run are not there"
    assert not list(tmp_path.rglob("*.sql"))


def test_only_columns_of_the_header_are_compared() -> None:
    assert holds(
        f"{COUNT}-- test: t\n-- given sales\n--   | num |\n--   | 2 |\n-- expect table\n--   | total |\n--   | 2 |\n"
    )


def test_rows_may_be_values_json_and_csv() -> None:
    rows = [
        "\n--   VALUES ('tea', 1 + 1)",
        ' json\n--   {"product": "tea", "num": 2}',
        " csv\n--   product,num\n--   tea,2",
    ]
    results = [
        "\n--   VALUES ('tea', 2)",
        ' json\n--   {"product": "tea", "total": 2}',
        " csv\n--   product,total\n--   tea,2",
    ]
    for given, expected in zip(rows, results, strict=True):
        assert holds(f"{COUNT}-- test: t\n-- given sales{given}\n-- expect table{expected}\n")


def test_values_are_compared_as_their_types() -> None:
    ddl = """CREATE TABLE t (a DECIMAL(10, 2), b TIMESTAMP(3), c DOUBLE, d ARRAY<INT>, e BOOLEAN, f STRING, g DATE,
  h ROW<x INT, y STRING>, i MAP<STRING, INT>, j BYTES, k TIMESTAMP_LTZ(3));
SELECT * FROM t;
"""
    head = "--   | a | b | c | d | e | f | g | h | i | j | k |\n"
    written = '--   | 1.5 | 2024-01-01 09:00:00 | 1 | [1, null] | true | "a b " | 2024-01-02 | {"x": 1, "y": "z"} | '
    written += '{"k": 1} | AQI= | 2024-01-01 10:00:00 |\n'
    other = written.replace("1.5 ", "1.50 ").replace("| 1 |", "| 1.0 |").replace("[1, null]", "[1,null]")
    story = f"{ddl}-- test: t\n-- given t\n{head}{written}-- expect rows\n{head}{other}"
    assert holds(story)
    assert not holds(story.replace("[1,null]", "[2,null]"))
    assert holds(f"SET 'table.local-time-zone' = 'Europe/Berlin';\n{story}")


def test_constant_rows_arrive_first() -> None:
    rows = "-- expect rows\n--   | two |\n--   | 2   |\n"
    assert holds(f"-- test: t\nSELECT 1 + 1 AS two;\n{rows}-- advance 1 s\n-- expect rows\n")


def test_a_select_is_a_query() -> None:
    assert holds("-- test: t\nSELECT 1 + 1 AS two;\n-- advance 1 s\n-- restart\n-- expect no warning\n")


def test_the_rows_of_a_step_are_those_since_the_last_one() -> None:
    verdict = failure(f"""{COUNT}-- test: t
-- given sales
--   | product | num |
--   | tea     | 1   |
-- expect table
--   | product | total |
--   | tea     | 1     |
-- given sales
--   | product | num |
--   | milk    | 2   |
-- expect changelog
--      | product | total |
--   +I | tea     | 1     |
""")
    assert verdict.message == "1 row missing, 1 row not expected"
    assert verdict.difference is not None
    assert [c.cells for c in verdict.difference.missing_rows] == [("tea", "1")]
    assert [c.cells for c in verdict.difference.extra] == [("milk", "2")]


def test_order_matters_only_where_it_is_said() -> None:
    story = """CREATE TABLE t (a INT);
SELECT * FROM t;
-- test: t
-- given t
--   | a |
--   | 1 |
--   | 2 |
-- expect rows
--   | a |
--   | 2 |
--   | 1 |
"""
    assert holds(story)
    verdict = failure(story.replace("expect rows", "expect rows in order"))
    assert verdict.message == "the rows are in another order"


WINDOWS = """CREATE TABLE s (v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '1' MINUTE);
SELECT window_start, SUM(v) AS v
FROM TUMBLE(TABLE s, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY window_start, window_end;
-- test: t
-- given s
--   | v | ts                  |
--   | 1 | 2024-01-01 09:00:00 |
-- watermark s 2024-01-01 10:00:00
-- expect rows
--   | window_start        | v |
--   | 2024-01-01 09:00:00 | 1 |
-- given s
--   | v | ts                  |
--   | 2 | 2024-01-01 09:59:00 |
--   | 3 | 2024-01-01 10:00:00 |
-- expect warning dropped
-- end
-- expect rows
--   | window_start        | v |
--   | 2024-01-01 10:00:00 | 3 |
"""


def test_late_rows_are_dropped_and_reported() -> None:
    assert holds(WINDOWS)
    assert not holds(WINDOWS.replace("watermark s 2024-01-01 10:00:00", "watermark s 2024-01-01 09:59:00"))


def test_windows_by_processing_time_close_when_the_clock_advances() -> None:
    assert holds("""CREATE TABLE s (v INT, pt AS PROCTIME());
SELECT SUM(v) AS v FROM TUMBLE(TABLE s, DESCRIPTOR(pt), INTERVAL '1' HOUR) GROUP BY window_start, window_end;
-- test: t
-- given s
--   | v |
--   | 1 |
-- advance 59 min
-- expect rows
-- advance 1 min
-- expect rows
--   | v |
--   | 1 |
""")


def test_each_window_closes_at_its_own_time() -> None:
    """The deduplication behind it forgets its key between two windows, which close in one step of the clock."""
    story = """CREATE TABLE s (v INT, pt AS PROCTIME());
SELECT w, v FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY v ORDER BY PROCTIME()) AS n FROM (
    SELECT window_start AS w, SUM(v) AS v
    FROM CUMULATE(TABLE s, DESCRIPTOR(pt), INTERVAL '1' HOUR, INTERVAL '2' HOUR) GROUP BY window_start, window_end)
) WHERE n = 1;
-- test: t
-- ttl deduplicate {}
-- given s
--   | v |
--   | 1 |
-- advance {}
-- expect rows
--   | v |
--   | 1 |
{}"""
    assert holds(story.format("1 h", "2 h", "--   | 1 |\n"))
    assert holds(story.format("61 min", "2 h", ""))
    assert holds(story.format("1 h", "3650 d", ""))  # too many windows to look at each of them


def test_state_survives_a_restart() -> None:
    story = f"""{COUNT}-- test: t
-- given sales
--   | product | num |
--   | tea     | 1   |
-- restart
-- given sales
--   | product | num |
--   | tea     | 2   |
-- expect table
--   | product | total |
--   | tea     | 3     |
"""
    assert holds(story)
    assert holds(story.replace("restart", "ttl group-aggregate 1 h"))
    assert not holds(story.replace("restart", "ttl group-aggregate 1 h\n-- advance 1 h"))


def test_a_plan_file_takes_the_place_of_the_query(tmp_path: Path) -> None:
    env = TableEnvironment.create()
    for name, kind in (("sales", "product STRING, num INT"), ("totals", "product STRING, total INT")):
        connector = "'connector' = 'filesystem', 'path' = '/nowhere', 'format' = 'debezium-json'"
        env.execute_sql(f"CREATE TABLE {name} ({kind}) WITH ({connector})")
    query = "INSERT INTO totals SELECT product, SUM(num) FROM sales GROUP BY product"
    env.compile_plan_sql(query).write_to_file(tmp_path / "sums.json")
    env.compile_plan_sql(query.replace("SUM", "MAX")).write_to_file(tmp_path / "largest.json")
    story = """-- test: t
-- plan sums.json
-- given sales
--   | product | num |
--   | tea     | 1   |
--   | tea     | 2   |
-- expect table
--   | product | total |
--   | tea     | 3     |
-- plan largest.json
-- expect error CKPT003
"""
    assert holds(story, file=str(tmp_path / "story.sql"))
    assert not holds(story.replace("plan largest", "plan sums"), file=str(tmp_path / "story.sql"))


def test_refusals_are_expected_with_their_code() -> None:
    story = "-- test: t\nSELECT nothing FROM nowhere;\n-- expect error {} nowhere\n"
    assert holds(story.format("CAT002"))
    verdict = failure(story.format("SQL999"))
    assert verdict.message.startswith("the error is [")
    assert verdict.actual is not None and verdict.actual[0].startswith("-- expect error ")


def test_a_row_that_fails_the_job_is_expected_with_its_code() -> None:
    story = """CREATE TABLE t (a STRING);
SELECT CAST(a AS INT) AS a FROM t;
-- test: t
-- given t
--   | a |
--   | x |
-- expect error DATA301
"""
    assert holds(story)
    assert failure(story.replace("| x |", "| 1 |")).message == "no error, and DATA301 is expected"


def test_an_error_of_a_query_is_expected_behind_other_steps() -> None:
    bad_row = "-- given sales\n--   | nun |\n--   | 1   |\n"
    assert holds(f"{COUNT}-- test: t\n{bad_row}-- expect error TEST002 nun\n")
    assert holds("-- test: t\nSELECT CAST('x' AS INT) AS a;\n-- expect error DATA301\n")


def test_an_error_that_is_not_expected_ends_the_test() -> None:
    result = outcome(f"{COUNT}-- test: t\n-- given sales\n--   | num |\n--   | x   |\n-- expect table\n")
    assert result.error is not None and result.error.code == "TEST002"
    assert result.error.place is not None and result.error.place.line == 7
    assert not result.holds


@pytest.mark.parametrize(
    ("step", "code", "hint"),
    [
        ("-- given sale\n--   | num |\n--   | 1 |\n", "TEST003", "sales"),
        ("-- given sales\n--   | nun |\n--   | 1 |\n", "TEST002", "num"),
        ("-- given sales\n--      | num |\n--   -D | 1 |\n", "TEST004", "changelog-mode"),
        ("-- expect table total\n", "TEST003", "totals"),
        ("-- expect state group-agregate: 1 row\n", "PLAN101", "group-aggregate"),
        ("-- ttl group-agregate 1 h\n", "PLAN101", "group-aggregate"),
        ("-- watermark sales 2024-01-01\n", "TEST003", "use the event time of a table 'sales'"),
    ],
)
def test_names_that_do_not_exist_are_refused(step: str, code: str, hint: str) -> None:
    result = outcome(f"{COUNT}-- test: t\n{step}")
    assert result.error is not None and result.error.code == code, result.error
    assert hint in str(result.error)
    assert result.error.place is not None and result.error.place.file == "story.sql"


def test_a_test_has_one_query() -> None:
    for text in ("-- test: t\n-- expect no warning\n", "-- test: t\nSELECT 1;\nSELECT 2;\n-- expect no warning\n"):
        result = outcome(text)
        assert result.error is not None and result.error.code == "TEST005"


def test_lint_and_warnings_are_expected() -> None:
    story = JOIN.replace("SELECT /*+ STATE_TTL('o' = '7 d', 'l' = '12 h') */", "SELECT")
    assert holds(f"{JOIN}-- test: t\n-- expect lint\n-- expect no warning\n")
    verdict = failure(f"{story}-- test: t\n-- expect lint TTL999\n")
    assert verdict.actual is not None
    assert holds(f"{story}-- test: t\n{verdict.actual[0]}\n")


def test_a_production_table_keeps_its_changes() -> None:
    """The plan is that of the real connector: only its rows are those of the test."""
    assert holds("""CREATE TABLE t (k INT, v INT, PRIMARY KEY (k) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1',
  'key.format' = 'json', 'value.format' = 'json');
SELECT SUM(v) AS v FROM t;
-- test: t
-- given t
--      | k | v |
--   +U | 1 | 5 |
--   +U | 1 | 7 |
--   +U | 2 | 1 |
-- expect state changelog-normalize: 2 rows
-- expect table
--   | v |
--   | 8 |
""")


def test_a_statement_set_writes_several_tables() -> None:
    story = """CREATE TABLE t (a INT);
CREATE TABLE big (a INT);
CREATE TABLE small LIKE big;
EXECUTE STATEMENT SET BEGIN
INSERT INTO big SELECT a FROM t WHERE a > 10;
INSERT INTO small SELECT a FROM t WHERE a <= 10;
END;
-- test: t
-- given t
--   | a  |
--   | 1  |
--   | 20 |
-- expect table SMALL
--   | a |
--   | 1 |
-- expect rows big
--   | a  |
--   | 20 |
"""
    assert holds(story)
    result = outcome(story.replace("expect rows big", "expect rows"))
    assert result.error is not None and result.error.code == "TEST010"
    assert "name one: 'expect rows big'" in str(result.error)


def test_statements_of_another_file_are_included(tmp_path: Path) -> None:
    (tmp_path / "query.sql").write_text(COUNT)
    story = "-- include query.sql\n-- test: t\n-- expect table\n"
    assert holds(story, file=str(tmp_path / "story.sql"))
    (tmp_path / "query.sql").write_text(COUNT.replace("SUM(num)", "SUM(nun)"))
    result = outcome(story, file=str(tmp_path / "story.sql"))
    assert result.error is not None and result.error.place is not None
    assert (result.error.place.file, result.error.place.line) == (str(tmp_path / "query.sql"), 3)


def test_a_table_that_is_looked_up_has_rows_of_the_test() -> None:
    assert holds("""CREATE TABLE o (id INT, cur STRING, pt AS PROCTIME());
CREATE TABLE r (cur STRING, rate INT) WITH (
  'connector' = 'jdbc', 'url' = 'jdbc:postgresql://nowhere/x', 'table-name' = 'r');
SELECT id, rate FROM o JOIN r FOR SYSTEM_TIME AS OF o.pt AS r ON o.cur = r.cur;
-- test: t
-- given r
--   | cur | rate |
--   | EUR | 2    |
-- given o
--   | id | cur |
--   | 1  | EUR |
-- expect rows
--   | id | rate |
--   | 1  | 2    |
""")


@pytest.mark.parametrize(
    "statement",
    [
        "EXECUTE PLAN 'p.json'",
        "ALTER PLAN 'p.json' SET TTL '1 h' FOR join",
        "CREATE TABLE u AS SELECT 1",
        "STOP JOB 'j'",
    ],
)
def test_a_test_starts_no_job_and_writes_no_file(statement: str) -> None:
    result = outcome(f"-- test: t\nSELECT 1;\n{statement};\n-- expect no warning\n")
    assert result.error is not None and result.error.code == "TEST011"
    assert result.error.place is not None and result.error.place.line == 3


def test_values_of_time_attributes_and_keys() -> None:
    assert holds("""CREATE TABLE sales (id INT NOT NULL, ts TIMESTAMP(3), WATERMARK FOR ts AS ts);
CREATE TABLE totals (h TIMESTAMP(3), n BIGINT);
INSERT INTO totals SELECT window_start, COUNT(*)
FROM TUMBLE(TABLE sales, DESCRIPTOR(ts), INTERVAL '1' HOUR) GROUP BY window_start, window_end;

-- test: t
-- given sales
--   VALUES (1, TIMESTAMP '2026-01-01 08:59:00'), (2, TIMESTAMP '2026-01-01 09:00:00')
-- expect rows
--   VALUES (TIMESTAMP '2026-01-01 08:00:00', 1)
""")
