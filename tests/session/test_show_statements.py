"""SHOW and DESCRIBE of what is not in flink_ddl.txt, and modules and jars: Flink's columns, or a clear refusal."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.common.settings import OPTIONS
from stateplan.session.environment import TableEnvironment
from stateplan.session.results import ResultKind


def rows(env: TableEnvironment, statement: str) -> tuple[tuple[str, ...], tuple[str, ...], list[tuple[object, ...]]]:
    """Columns, their types and rows."""
    result = env.execute_sql(statement)
    assert result.get_result_kind() is ResultKind.SUCCESS_WITH_CONTENT
    return result.columns, tuple(map(str, result.types)), result.rows


STRING = "VARCHAR(2147483647)"


@pytest.mark.parametrize(
    ("statement", "columns", "types", "expected"),
    [
        ("SHOW MODULES", ("module name",), (STRING,), [("core",)]),
        ("SHOW FULL MODULES", ("module name", "used"), (STRING, "BOOLEAN"), [("core", True)]),
        ("SHOW JARS", ("jars",), (STRING,), []),
        ("SHOW PROCEDURES", ("procedure name",), (STRING,), []),
        ("SHOW PROCEDURES IN default_database NOT LIKE 'p%'", ("procedure name",), (STRING,), []),
        (
            "SHOW CREATE CATALOG default_catalog",
            ("result",),
            (STRING,),
            [
                (
                    "CREATE CATALOG `default_catalog`\nWITH (\n  'default-database' = 'default_database',\n"
                    "  'type' = 'generic_in_memory'\n)",
                )
            ],
        ),
    ],
)
def test_columns_are_those_of_flink(
    statement: str, columns: tuple[str, ...], types: tuple[str, ...], expected: list[tuple[object, ...]]
) -> None:
    assert rows(TableEnvironment.create(), statement) == (columns, types, expected)


def test_a_catalog_tells_what_it_was_created_with() -> None:
    env = TableEnvironment.create()
    statement = (
        "CREATE CATALOG `my c`\nCOMMENT 'it''s'\nWITH (\n  'default-database' = 'd',\n  'type' = 'generic_in_memory'\n)"
    )
    env.execute_sql(statement)
    assert env.execute_sql("SHOW CREATE CATALOG `my c`").rows == [(statement,)]
    described = [("name", "my c"), ("type", "generic_in_memory"), ("comment", "it's")]
    assert env.execute_sql("DESC CATALOG `my c`").rows == described
    assert env.execute_sql("DESCRIBE CATALOG EXTENDED `my c`").rows == [*described, ("option:default-database", "d")]
    env.execute_sql("DROP CATALOG `my c`")
    assert fails(env, "SHOW CREATE CATALOG `my c`").startswith("[CAT003]")


def test_partitions_of_a_folder(tmp_path: Path) -> None:
    env = TableEnvironment.create()
    env.execute_sql(
        "CREATE TABLE t (a INT, d STRING, h INT) PARTITIONED BY (d, h) "
        f"WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/t', 'format' = 'json')"
    )
    result = env.execute_sql("SHOW PARTITIONS t")
    assert (result.columns, result.rows) == (("partition name",), [])
    assert result.notes == (
        "the partitions of 'default_catalog.default_database.t' cannot be listed, or it has none yet",
    )
    for folder in ("d=2024-01-31/h=7", "d=2024-01-31/h=8", "d=2024-02-01/h=7", "d=__DEFAULT_PARTITION__/h=-1"):
        (tmp_path / "t" / folder).mkdir(parents=True)
    assert [name for (name,) in env.execute_sql("SHOW PARTITIONS t").rows] == [
        "d=2024-01-31/h=7",
        "d=2024-01-31/h=8",
        "d=2024-02-01/h=7",
        "d=__DEFAULT_PARTITION__/h=-1",
    ]
    assert env.execute_sql("SHOW PARTITIONS t PARTITION (d = '2024-01-31')").rows == [
        ("d=2024-01-31/h=7",),
        ("d=2024-01-31/h=8",),
    ]
    assert env.execute_sql("SHOW PARTITIONS t PARTITION (h = -1)").rows == [("d=__DEFAULT_PARTITION__/h=-1",)]
    assert env.execute_sql("SHOW PARTITIONS t PARTITION (h = 7, d = '2024-02-01')").rows == [("d=2024-02-01/h=7",)]
    assert env.execute_sql("SHOW PARTITIONS t PARTITION (d = 'none')").rows == []


def fails(env: TableEnvironment, statement: str) -> str:
    with pytest.raises(StateplanError) as raised:
        env.execute_sql(statement)
    return str(raised.value)


REFUSED = """
LOAD MODULE hive WITH ('hive-version' = '3.1.3')
            ^^^^
[CAT080] there is no module 'hive'
  expected: core, which is always loaded
  hint: for functions of your own: CREATE FUNCTION f AS 'module.f' LANGUAGE PYTHON

LOAD MODULE core
            ^^^^
[CAT080] the module 'core' is already loaded

UNLOAD MODULE core
              ^^^^
[CAT081] the module 'core' cannot be unloaded

UNLOAD MODULE cor
              ^^^
[CAT080] there is no module 'cor'
  expected: core, which is always loaded
  hint: did you mean 'core'?

USE MODULES core, hive
                  ^^^^
[CAT080] there is no module 'hive'
  expected: core, which is always loaded
  hint: for functions of your own: CREATE FUNCTION f AS 'module.f' LANGUAGE PYTHON

USE MODULES core, core
                  ^^^^
[CAT080] the list names the module 'core' twice
  expected: each module once

SHOW PARTITIONS plain
                ^^^^^
[CAT062] 'default_catalog.default_database.plain' is not partitioned
  expected: a table with PARTITIONED BY

SHOW PARTITIONS v
                ^
[CAT011] 'default_catalog.default_database.v' is a view, not a table

SHOW PARTITIONS parted PARTITION (a = 1)
                                  ^
[SQL135] 'a' is not a partition column of 'default_catalog.default_database.parted'
  expected: one of d, h

SHOW PARTITIONS parted PARTITION (d = 'x', d = 'y')
                                           ^
[SQL132] column 'd' is listed twice
  expected: each column once

SHOW PARTITIONS parted PARTITION (d = NULL)
                                      ^^^^
[SQL136] the value of the partition column 'd' is not a constant text or number
  expected: a constant such as d = '2024-01-31' or d = 7

SHOW PROCEDURES FROM nowhere
                     ^^^^^^^
[CAT004] database 'default_catalog.nowhere' not found
  expected: a database: default_database
"""


@pytest.mark.parametrize("block", REFUSED.strip("\n").split("\n\n"), ids=lambda block: block.split("\n")[0])
def test_refusals(block: str) -> None:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE plain (a INT) WITH ('connector' = 'print')")
    env.execute_sql("CREATE VIEW v AS SELECT 1 AS a")
    env.execute_sql("CREATE TABLE parted (a INT, d STRING, h INT) PARTITIONED BY (d, h) WITH ('connector' = 'datagen')")
    statement, caret, message, *rest = block.split("\n")
    place = [f"  --> line 1, column {caret.index('^') + 1}", f"  {statement}", f"  {caret}"]
    assert fails(env, statement).split("\n") == [message, *place, *rest]


def test_the_module_of_all_functions_is_in_use() -> None:
    assert TableEnvironment.create().execute_sql("USE MODULES core").kind is ResultKind.SUCCESS


def test_set_says_what_an_option_does_without_markup() -> None:
    (note,) = TableEnvironment.create().execute_sql("SET 'table.catalog-store.kind'").notes
    assert note.endswith("See catalogs.")
    for key in OPTIONS:
        (note,) = TableEnvironment.create().execute_sql(f"SET '{key}'").notes
        assert not {*"`["} & {*note}, key
