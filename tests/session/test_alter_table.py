"""ALTER TABLE ... ADD, MODIFY, DROP and RENAME: what Flink 2.3 takes and refuses, and how such tables are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.planner.dialect import parse, to_sql
from stateplan.session.environment import TableEnvironment

WITH = "WITH ('connector' = 'filesystem', 'path' = '/data', 'format' = 'json')"


def environment() -> TableEnvironment:
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE TABLE t (id INT, c INT, PRIMARY KEY (id) NOT ENFORCED) {WITH}")
    return env


def described(env: TableEnvironment) -> list[tuple[object, ...]]:
    return [tuple(v for v in row if v is not None) for row in env.execute_sql("DESCRIBE t").collect()]


def test_as_flink_changes_a_table() -> None:
    env = environment()
    for change in (
        "ADD d INT AFTER id",
        "ADD (e AS c + 1, f INT NOT NULL AFTER id)",
        "ADD g TIMESTAMP(3) METADATA FROM 'ts' VIRTUAL",
        "MODIFY c BIGINT FIRST",
        "MODIFY (d STRING AFTER c, f BIGINT)",
        "MODIFY e AS c + 2",
        "MODIFY PRIMARY KEY (f) NOT ENFORCED",
        "ADD WATERMARK FOR g AS g",
    ):
        env.execute_sql(f"ALTER TABLE t {change}")
    assert described(env) == [
        ("c", "BIGINT", True),
        ("d", "STRING", True),
        ("id", "INT", False),
        ("f", "BIGINT", False, "PRI(f)"),
        ("e", "BIGINT", True, "AS `c` + 2"),
        ("g", "TIMESTAMP(3) *ROWTIME*", True, "METADATA FROM 'ts' VIRTUAL", "`g`"),
    ]
    for change in (
        "MODIFY WATERMARK FOR g AS g - INTERVAL '1' MINUTE",
        "RENAME f TO f2",
        "DROP id",
        "DROP (c, e)",
        "DROP PRIMARY KEY",
        "DROP WATERMARK",
        "ADD (p INT, CONSTRAINT k PRIMARY KEY (p) NOT ENFORCED)",
        "DROP CONSTRAINT k",
        "ADD y INT COMMENT 'yy' FIRST",
    ):
        env.execute_sql(f"ALTER TABLE t {change}")
    assert [row[:3] for row in described(env)] == [
        ("y", "INT", True),
        ("d", "STRING", True),
        ("f2", "BIGINT", False),
        ("g", "TIMESTAMP(3)", True),
        ("p", "INT", False),
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("ADD id INT", "[CAT030] there is a column 'id' in the table already"),
        ("ADD x INT AFTER nope", "[CAT013] the table has no column 'nope'"),
        ("ADD PRIMARY KEY (c) NOT ENFORCED", "[CAT013] the table has a primary key"),
        ("ADD WATERMARK FOR r AS r", "[CAT013] the table has a watermark"),
        ("ADD UNIQUE (c) NOT ENFORCED", "[SQL004] UNIQUE is not supported"),
        ("ADD PARTITION (c = 1)", "[SQL004] ALTER TABLE ... ADD PARTITION is not supported"),
        ("ADD IF NOT EXISTS PARTITION (c = 1)", "[SQL004] ALTER TABLE ... ADD PARTITION is not supported"),
        ("DROP IF EXISTS PARTITION (c = 1)", "[SQL004] ALTER TABLE ... DROP PARTITION is not supported"),
        ("ADD DISTRIBUTION INTO 4 BUCKETS", "[SQL004] ALTER TABLE ... ADD DISTRIBUTION is not supported"),
        ("ADD (x INT, x INT)", "[CAT030] there is a column 'x' in the table already"),
        ("ADD x AS nope + 1", "[SQL100] column 'nope' not found"),
        ("MODIFY nope INT", "[CAT013] the table has no column 'nope'"),
        ("MODIFY r INT", "[CAT035] the watermark's column"),
        ("DROP c", "[CAT013] the column 'c' is used by the computed column 'e'"),
        ("DROP r", "[CAT013] the column 'r' is used by the watermark"),
        ("DROP id", "[CAT013] the column 'id' is used by the primary key"),
        ("DROP nope", "[CAT013] the table has no column 'nope'"),
        ("DROP CONSTRAINT nope", "[CAT013] the table has no constraint 'nope'"),
        ("RENAME c TO d", "[CAT013] the column 'c' is used by the computed column 'e'"),
        ("RENAME id TO c", "[CAT030] there is a column 'c' in the table already"),
        ("RENAME nope TO c", "[CAT013] the table has no column 'nope'"),
    ],
)
def test_what_flink_refuses_is_refused_and_changes_nothing(change: str, message: str) -> None:
    env = environment()
    env.execute_sql("ALTER TABLE t ADD (e AS c + 1, r TIMESTAMP(3), WATERMARK FOR r AS r)")
    before = described(env)
    with pytest.raises(StateplanError) as refused:
        env.execute_sql(f"ALTER TABLE t {change}")
    assert str(refused.value).startswith(message)
    assert described(env) == before


def test_of_a_partitioned_table() -> None:
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE TABLE t (a INT, b INT) PARTITIONED BY (b) {WITH}")
    env.execute_sql("ALTER TABLE t MODIFY b BIGINT")
    for change in ("DROP b", "RENAME b TO c"):
        with pytest.raises(StateplanError, match="used by PARTITIONED BY"):
            env.execute_sql(f"ALTER TABLE t {change}")
    with pytest.raises(StateplanError, match="no watermark"):
        env.execute_sql("ALTER TABLE t DROP WATERMARK")
    assert env.execute_sql("ALTER TABLE IF EXISTS nope ADD x INT").notes == ()


def test_a_changed_table_is_read_with_its_new_columns(tmp_path: Path) -> None:
    rows = [{"id": i, "c": 10 * i, "r": f"2024-01-01 00:00:0{i}"} for i in (1, 2)]
    (tmp_path / "t.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    env = TableEnvironment.create()
    options = f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 't.json'}', 'format' = 'json')"
    env.execute_sql(f"CREATE TABLE t (e AS c + 1, c INT, id INT) {options}")
    env.execute_sql("ALTER TABLE t ADD (r TIMESTAMP(3) FIRST, f AS id * 2 FIRST, WATERMARK FOR r AS r)")
    env.execute_sql("ALTER TABLE t MODIFY id BIGINT FIRST")
    found = env.execute_sql("SELECT id, e, f, c FROM t").collect()
    assert [tuple(row) for row in found] == [(1, 11, 2, 10), (2, 21, 4, 20)]
    windows = env.execute_sql("SELECT COUNT(*) FROM TABLE(TUMBLE(TABLE t, DESCRIPTOR(r), INTERVAL '1' MINUTE)) "
                              "GROUP BY window_start, window_end").collect()  # fmt: skip
    assert [tuple(row) for row in windows] == [(2,)]


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD (x INT COMMENT 'c' FIRST, WATERMARK FOR r AS r, PRIMARY KEY (x) NOT ENFORCED)",
        "ALTER TABLE IF EXISTS t MODIFY (x AS y + 1 AFTER y)",
        "ALTER TABLE t DROP (a, b)",
        "ALTER TABLE t DROP CONSTRAINT k",
        "ALTER TABLE t DROP WATERMARK",
        "ALTER TABLE t RENAME a TO b",
    ],
)
def test_is_written_as_it_is_read(statement: str) -> None:
    assert [to_sql(node) for node in parse(statement)] == [statement]
