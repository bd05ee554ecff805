"""The grammar of each statement, for people: what ``HELP <statement>`` prints, and the tables of the SQL page.

``[x]`` may be omitted, ``x | y`` is one of both, ``...`` is more of the same, words in small letters stand for names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from stateplan.common.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Grammar:
    """A statement.

    Attributes:
        name: its first words.
        lines: how it is written.
        effect: what it does, in Markdown.
        example: one that parses.
        plan: whether it is about plan files.
    """

    name: str
    lines: tuple[str, ...]
    effect: str
    example: str
    plan: bool = False


_NAME = "[[catalog.]database.]name"

STATEMENTS: tuple[Grammar, ...] = (
    Grammar(
        "COMPILE PLAN",
        (
            "COMPILE PLAN 'path' [IF NOT EXISTS] FOR INSERT ...",
            "COMPILE PLAN 'path' [IF NOT EXISTS] FOR STATEMENT SET BEGIN INSERT ...; ... END",
            "COMPILE PLAN FOR ...",
            "COMPILE PLAN 'new' [IF NOT EXISTS] FROM 'old'",
        ),
        "compiles the statement and writes the plan. An existing file is an error, unless IF NOT EXISTS keeps it. "
        "Without a path, the plan is the result. FROM updates a plan of an older Flink release "
        "([plan migration](plan-migration.md))",
        "COMPILE PLAN 'plan.json' FOR INSERT INTO totals SELECT product, COUNT(*) FROM orders GROUP BY product",
        plan=True,
    ),
    Grammar(
        "ALTER PLAN",
        ("ALTER PLAN 'path' SET TTL 'duration' FOR selector [, selector ...] [, TTL 'duration' FOR ...]",),
        "sets the TTL of a state ([below](#alter-plan))",
        "ALTER PLAN 'plan.json' SET TTL '1 d' FOR join.right",
        plan=True,
    ),
    Grammar(
        "EXPLAIN PLAN",
        ("EXPLAIN [details] PLAN 'path'",),
        "prints the operator tree and the states (in Flink only in the API)",
        "EXPLAIN PLAN 'plan.json'",
        plan=True,
    ),
    Grammar("EXECUTE PLAN", ("EXECUTE PLAN 'path'",), "runs the plan", "EXECUTE PLAN 'plan.json'", plan=True),
    Grammar(
        "COMPILE AND EXECUTE PLAN",
        ("COMPILE AND EXECUTE PLAN 'path' FOR INSERT ... | STATEMENT SET ...",),
        "compiles the statement, writes the plan and runs it. As in Flink, an existing file runs "
        "unchanged, and a note says so. It is an error if the file records other SQL",
        "COMPILE AND EXECUTE PLAN 'plan.json' FOR INSERT INTO totals SELECT product FROM orders",
        plan=True,
    ),
    Grammar(
        "SELECT",
        (
            "SELECT [DISTINCT] expression [[AS] name], ... FROM table, ... [WHERE condition]",
            "  [GROUP BY expression, ...] [HAVING condition] [QUALIFY condition]",
            "  [ORDER BY ...] [LIMIT n]",
            "WITH name AS (query), ... SELECT ...",
            "VALUES (expression, ...), ...",
        ),
        "runs the [query](#queries) and shows its rows",
        "SELECT product, COUNT(*) FROM orders GROUP BY product",
    ),
    Grammar(
        "INSERT",
        ("INSERT INTO name [(column, ...)] query",),
        "runs the query and writes its rows into a table",
        "INSERT INTO totals SELECT product, COUNT(*) FROM orders GROUP BY product",
    ),
    Grammar(
        "EXECUTE STATEMENT SET",
        (
            "EXECUTE STATEMENT SET BEGIN INSERT ...; INSERT ...; END",
            "BEGIN STATEMENT SET; INSERT ...; INSERT ...; END | ROLLBACK",
        ),
        "runs several INSERTs as one query with one checkpoint. Between `BEGIN` and `END`, only `INSERT`, "
        "`DESCRIBE`, `EXPLAIN`, `SET` and `RESET` are allowed. `ROLLBACK` discards the set (not in Flink)",
        "EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT x FROM t; INSERT INTO b SELECT y FROM t; END",
    ),
    Grammar(
        "EXPLAIN",
        (
            "EXPLAIN [detail, ...] SELECT ... | INSERT ... | STATEMENT SET ... | CREATE TABLE ... AS ...",
            "detail: CHANGELOG_MODE | PLAN_ADVICE | JSON_EXECUTION_PLAN | ESTIMATED_COST",
        ),
        "prints the logical plan (`Abstract Syntax Tree`), the physical plan, the operators of the plan file, and the "
        "states. `CHANGELOG_MODE` and `PLAN_ADVICE` add changes and Flink's advice to the physical plan "
        "(two-phase aggregates, non-deterministic columns in updates). `JSON_EXECUTION_PLAN` prints the job graph. "
        "`ESTIMATED_COST` is rejected, because it needs statistics",
        "EXPLAIN CHANGELOG_MODE SELECT product FROM orders",
    ),
    Grammar(
        "CREATE TABLE",
        (
            f"CREATE [TEMPORARY] TABLE [IF NOT EXISTS] {_NAME} (",
            "  column type [NOT NULL] [COMMENT 'text'],",
            "  column AS expression,",
            "  column type METADATA [FROM 'key'] [VIRTUAL],",
            "  WATERMARK FOR column AS expression,",
            "  PRIMARY KEY (column, ...) NOT ENFORCED",
            ") [COMMENT 'text'] [PARTITIONED BY (column, ...)] [WITH ('key' = 'value', ...)]",
            "  [LIKE name [(INCLUDING | EXCLUDING | OVERWRITING option ...)]]",
        ),
        "creates a table with physical, computed and metadata columns, and with the options of its "
        "[connector](connectors.md). Its [catalog](catalogs.md) decides how long the table exists, by default until "
        "the session ends",
        "CREATE TABLE orders (id INT, t AS PROCTIME()) WITH ('connector' = 'replay', 'path' = '/o', 'format' = 'json')",
    ),
    Grammar(
        "CREATE TABLE AS",
        (
            f"CREATE TABLE [IF NOT EXISTS] {_NAME} [(column ..., ...)] [WITH ('key' = 'value', ...)] AS query",
            f"CREATE OR REPLACE TABLE {_NAME} [(column ..., ...)] [WITH ('key' = 'value', ...)] AS query",
            f"REPLACE TABLE {_NAME} [(column ..., ...)] [WITH ('key' = 'value', ...)] AS query",
        ),
        "creates or replaces a table with the columns of a query, and [starts the INSERT](#create-table-as)",
        "CREATE TABLE totals WITH ('connector' = 'print') AS SELECT product, SUM(amount) AS total FROM orders GROUP BY "
        "product",
    ),
    Grammar(
        "CREATE VIEW",
        (f"CREATE [OR REPLACE] [TEMPORARY] VIEW [IF NOT EXISTS] {_NAME} [(column, ...)] [COMMENT 'text'] AS query",),
        "names a query. A `*` in the query means the columns that the table has now, even if it gets others later",
        "CREATE TEMPORARY VIEW expensive AS SELECT * FROM orders WHERE amount > 1000",
    ),
    Grammar(
        "CREATE DATABASE",
        ("CREATE DATABASE [IF NOT EXISTS] [catalog.]name [COMMENT 'text'] [WITH ('key' = 'value', ...)]",),
        "creates a database in a [catalog](catalogs.md)",
        "CREATE DATABASE IF NOT EXISTS shop",
    ),
    Grammar(
        "CREATE CATALOG",
        ("CREATE CATALOG [IF NOT EXISTS] name [COMMENT 'text'] [WITH ('key' = 'value', ...)]",),
        "creates a [catalog](catalogs.md): in memory, on disk, or of the tables of PostgreSQL and Delta",
        "CREATE CATALOG shop WITH ('type' = 'generic_in_memory')",
    ),
    Grammar(
        "CREATE FUNCTION",
        (f"CREATE [TEMPORARY [SYSTEM]] FUNCTION [IF NOT EXISTS] {_NAME} AS 'module.name' LANGUAGE PYTHON",),
        "registers a [Python function](functions.md)",
        "CREATE TEMPORARY FUNCTION slug AS 'shop.slug' LANGUAGE PYTHON",
    ),
    Grammar(
        "ALTER TABLE",
        (
            "ALTER TABLE [IF EXISTS] name SET ('key' = 'value', ...)",
            "ALTER TABLE [IF EXISTS] name RESET ('key', ...)",
            "ALTER TABLE [IF EXISTS] name RENAME TO name",
            "ALTER TABLE [IF EXISTS] name ADD | MODIFY column [FIRST | AFTER column]",
            "ALTER TABLE [IF EXISTS] name ADD | MODIFY WATERMARK FOR column AS expression",
            "ALTER TABLE [IF EXISTS] name ADD | MODIFY [CONSTRAINT name] PRIMARY KEY (column, ...) NOT ENFORCED",
            "ALTER TABLE [IF EXISTS] name ADD | MODIFY (element, ...)",
            "ALTER TABLE [IF EXISTS] name DROP column | (column, ...) | WATERMARK | PRIMARY KEY | CONSTRAINT name",
            "ALTER TABLE [IF EXISTS] name RENAME column TO name",
        ),
        "changes the options of a table, its name, or its columns, watermark and primary key. As in Flink, a column to "
        "which something refers cannot be dropped or renamed",
        "ALTER TABLE orders SET ('path' = '/data/orders')",
    ),
    Grammar(
        "ALTER VIEW",
        ("ALTER VIEW name RENAME TO name", "ALTER VIEW name AS query"),
        "changes the name or the query of a view",
        "ALTER VIEW expensive AS SELECT * FROM orders WHERE amount > 2000",
    ),
    Grammar(
        "ALTER FUNCTION",
        ("ALTER [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name AS 'module.name' LANGUAGE PYTHON",),
        "changes the implementation of a [Python function](functions.md)",
        "ALTER FUNCTION slug AS 'shop.text.slug' LANGUAGE PYTHON",
    ),
    Grammar(
        "DROP",
        (
            "DROP [TEMPORARY] TABLE | VIEW [IF EXISTS] name",
            "DROP DATABASE [IF EXISTS] name [RESTRICT | CASCADE]",
            "DROP CATALOG [IF EXISTS] name",
            "DROP [TEMPORARY [SYSTEM]] FUNCTION [IF EXISTS] name",
        ),
        "removes the object from the session. Files stay",
        "DROP TABLE IF EXISTS orders",
    ),
    Grammar(
        "USE",
        ("USE [catalog.]database", "USE CATALOG name", "USE MODULES core"),
        "changes the current database or catalog. `core` is the only module; `LOAD MODULE` and `UNLOAD MODULE` are "
        "rejected",
        "USE CATALOG shop",
    ),
    Grammar(
        "SHOW",
        (
            "SHOW CATALOGS | DATABASES | TABLES | VIEWS | [USER] FUNCTIONS [FROM name] [[NOT] LIKE | ILIKE 'pattern']",
            "SHOW COLUMNS FROM name [[NOT] LIKE | ILIKE 'pattern']",
            "SHOW CREATE TABLE | VIEW | CATALOG name",
            "SHOW CURRENT CATALOG | DATABASE",
        ),
        "lists objects of the session, or prints their definitions",
        "SHOW TABLES LIKE 'ord%'",
    ),
    Grammar(
        "SHOW PARTITIONS",
        ("SHOW PARTITIONS name [PARTITION (column = value, ...)]",),
        "lists the partitions that the folders of the table have now. Flink lists the partitions that "
        "`ALTER TABLE` has added to the catalog",
        "SHOW PARTITIONS orders PARTITION (dt = '2026-01-01')",
    ),
    Grammar(
        "SHOW JOBS",
        ("SHOW JOBS",),
        "lists the jobs of this process or gateway, the newest first. Without a gateway, it omits queries that have "
        "ended, unless they have a `pipeline.name`",
        "SHOW JOBS",
    ),
    Grammar(
        "SHOW OPTIONS",
        ("SHOW OPTIONS [[NOT] LIKE | ILIKE 'pattern']",),
        "prints all [options](options.md) with their values",
        "SHOW OPTIONS LIKE '%mini-batch%'",
    ),
    Grammar(
        "SHOW MODULES",
        ("SHOW [FULL] MODULES", "SHOW PROCEDURES | MODELS | JARS"),
        "lists modules, procedures, models or JAR files. `core` is the only module, and the other lists are empty. "
        "`ADD JAR` is rejected, because "
        "[functions](functions.md) and [connectors](connector-protocol.md) are Python",
        "SHOW FULL MODULES",
    ),
    Grammar(
        "DESCRIBE",
        (
            "DESCRIBE | DESC [EXTENDED] name",
            "DESCRIBE CATALOG | DATABASE | FUNCTION [EXTENDED] name",
            "DESCRIBE JOB [EXTENDED] 'id'",
        ),
        "prints the columns of a table or view, or the properties of an object or a job. EXTENDED adds the "
        "checkpoint of a job, its last micro-batch, whether it is waiting for input, and its plan with the TTLs that "
        "hold. Of a job with a shadow, it compares both plans: see [ALTER JOB](#alter-job)",
        "DESCRIBE orders",
    ),
    Grammar(
        "STOP JOB",
        ("STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]",),
        "stops a job. Its checkpoint stays usable. WITH SAVEPOINT copies the checkpoint for other jobs to start from, "
        "and WITH DRAIN completes all windows first. See [savepoints](savepoints.md)",
        "STOP JOB '9d3e6d0672fd4890adf157f3a7321ee0' WITH SAVEPOINT",
    ),
    Grammar(
        "ALTER JOB",
        (
            "ALTER JOB 'id' USING PLAN 'path' [WITH ('shadow' = 'true')]",
            "ALTER JOB 'id' COMMIT | ROLLBACK",
            "ALTER JOB 'id' SET TTL 'duration' FOR selector [, selector ...] [, TTL 'duration' FOR ...]",
        ),
        "continues a job with a changed plan, and keeps its state: see [below](#alter-job). With `shadow`, the plan "
        "runs beside the old one until COMMIT or ROLLBACK. SET TTL [changes TTLs while the job runs](live-ttl.md)",
        "ALTER JOB '9d3e6d0672fd4890adf157f3a7321ee0' USING PLAN 'plan.json'",
    ),
    Grammar(
        "SET",
        ("SET 'key' = 'value'", "SET 'key'", "SET"),
        "sets an [option](options.md), or prints an option with its value and description, or prints all options that "
        "the session has set",
        "SET 'table.exec.state.ttl' = '1 d'",
    ),
    Grammar("RESET", ("RESET ['key']",), "resets an option, or all", "RESET 'table.exec.state.ttl'"),
)
"""In the order of the SQL page."""


def matching_statements(words: str) -> list[Grammar]:
    """The statements that begin with ``words``; else the one whose name ``words`` begin with."""
    name = " ".join(words.upper().split())
    statements = [s for s in STATEMENTS if (s.name + " ").startswith(name + " ")]
    return statements or [s for s in STATEMENTS if name.startswith(s.name + " ")]


def words() -> Iterator[str]:
    """The words in capital letters of all statements."""
    for statement in STATEMENTS:
        for line in statement.lines:
            yield from re.findall(r"(?<![\w'])[A-Z][A-Z_]+(?![\w'])", line)
