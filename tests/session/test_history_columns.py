"""The table that holds the messages of a topic: its columns are found by name, and it has to fit."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from stateplan.common.errors import StateplanError
from stateplan.connectors.history_table import HistoryTable
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.session.environment import TableEnvironment
from stateplan.session.history_tables import history_tables

KEYS = (
    "p INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL, "
    "came TIMESTAMP_LTZ(3) METADATA FROM 'timestamp' VIRTUAL"
)
COLUMNS = "k BIGINT, v STRING, r ROW<a INT, b STRING>, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
HELD = "k BIGINT, v STRING, r ROW<a INT, b STRING>, ts TIMESTAMP(3), p INT, o BIGINT, came TIMESTAMP_LTZ(3)"
FILES = "'connector' = 'filesystem', 'path' = '/h', 'format' = 'parquet'"
QUERY = "SELECT v, SUM(k) FROM topic GROUP BY v"


def resolved(
    held: str = HELD,
    keys: str = f", {KEYS}",
    *,
    options: str = FILES,
    name: str = "h",
    query: str = QUERY,
    topic: str = "'format' = 'json'",
    declaration: str | None = None,
) -> HistoryTable:
    """The history of a topic."""
    env = TableEnvironment.create()
    env.execute_sql(
        f"CREATE TABLE topic ({COLUMNS}{keys}) WITH ('connector' = 'kafka', 'topic' = 't', "
        f"'properties.bootstrap.servers' = 'localhost:1', 'scan.startup.mode' = 'earliest-offset', "
        f"'backfill.table' = '{name}', {topic})"
    )
    env.execute_sql(declaration or f"CREATE TABLE h ({held}) WITH ({options})")
    env.execute_sql("CREATE TABLE out1 (v STRING, n BIGINT) WITH ('connector' = 'blackhole')")
    graph = env.compile_plan_sql(f"INSERT INTO out1 {query}").document.graph
    checked_nodes: list[ExecNode] = []
    (table,) = history_tables(graph.nodes, env.catalog, {}, checked_nodes.append).values()
    (node,) = checked_nodes
    assert node.scan_table_source.table.resolved_table.options["connector"] == table.table.connector.name  # type: ignore[attr-defined]
    return table


@pytest.mark.parametrize("name", ["h", "default_database.h", "`default_catalog`.`default_database`.`h`"])
def test_columns_are_found_by_name(name: str) -> None:
    held = "came TIMESTAMP_LTZ(6) NOT NULL, o INT, p BIGINT, ts TIMESTAMP(3), v STRING NOT NULL, k BIGINT"
    table = resolved(held, name=name)
    assert sorted(table.columns) == ["k", "ts", "v"], "r is not read"
    assert table.keys == {"partition": "p", "offset": "o", "timestamp": "came"}


def test_metadata_that_the_plan_reads_is_in_columns() -> None:
    keys = f", {KEYS}, head MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL"
    query = "SELECT CAST(head['x'] AS STRING), COUNT(o) FROM topic GROUP BY head['x']"
    assert resolved(f"{HELD}, head MAP<STRING, BYTES>", keys, query=query).columns[-2:] == ("head", "o")
    with pytest.raises(StateplanError, match=r"it has no column 'head' of type MAP<"):
        resolved(HELD, keys, query=query)


def test_a_table_that_looks_for_new_files_is_read_as_it_is() -> None:
    table = resolved(options=f"{FILES}, 'source.monitor-interval' = '1 s'")
    assert "source.monitor-interval" not in table.table.options


def test_gaps_count_unless_the_options_say_otherwise() -> None:
    assert not resolved().ignores_gaps
    assert resolved(topic="'format' = 'json', 'backfill.table.ignore-gaps' = 'true'").ignores_gaps


def test_times_are_not_needed() -> None:
    keys = ", p INT METADATA FROM 'partition' VIRTUAL, o BIGINT METADATA FROM 'offset' VIRTUAL"
    assert resolved(keys=keys).keys == {"partition": "p", "offset": "o"}


TOPIC = "default_catalog.default_database.topic"


@pytest.mark.parametrize(
    ("args", "why", "hint"),
    [
        ({"name": "hh"}, "table or view 'default_catalog.default_database.hh' not found", "h"),
        ({"declaration": "CREATE VIEW h AS SELECT 1 AS p"}, "it is a view", None),
        (
            {"options": "'connector' = 'datagen'", "held": HELD.replace("r ROW<a INT, b STRING>, ", "")},
            "it does not end by itself",
            None,
        ),
        (
            {
                "options": "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://localhost/db', 'table-name' = 'h'",
                "held": HELD.replace("r ROW<a INT, b STRING>, ", ""),
            },
            "the rows in the database may have changed since they were read",
            None,
        ),
        (
            {"options": FILES.replace("parquet", "debezium-json")},
            "'default_catalog.default_database.h' has changes, and not only new rows",
            None,
        ),
        ({"topic": "'format' = 'debezium-json'"}, f"'{TOPIC}' has changes, and not only new rows", None),
        ({"keys": ""}, f"'{TOPIC}' has no column METADATA FROM 'partition'", None),
        ({"keys": f", {KEYS.split(', ')[0]}"}, f"'{TOPIC}' has no column METADATA FROM 'offset'", None),
        ({"held": HELD.replace("p INT", "pp INT")}, "it has no column 'p' of type a whole number", "pp"),
        ({"held": HELD.replace("p INT", "p STRING")}, "its column 'p' is of type STRING, and not a whole number", None),
        (
            {"held": HELD.replace("TIMESTAMP_LTZ(3)", "TIMESTAMP(3)")},
            "its column 'came' is of type TIMESTAMP(3), and not TIMESTAMP_LTZ(3)",
            None,
        ),
        ({"held": HELD.replace("k BIGINT", "kk BIGINT")}, "it has no column 'k' of type BIGINT", "kk"),
        ({"held": HELD.replace("k BIGINT", "k INT")}, "its column 'k' is of type INT, and not BIGINT", None),
    ],
)
def test_a_table_that_does_not_fit_is_refused(args: Mapping[str, str], why: str, hint: str | None) -> None:
    with pytest.raises(StateplanError) as error:
        resolved(**args)  # type: ignore[arg-type]
    name = f"default_catalog.default_database.{args.get('name', 'h')}"
    assert str(error.value.code) == "OPT176"
    assert error.value.message == f"table '{name}' cannot be the history of '{TOPIC}': {why}"
    assert error.value.expected == f"a bounded table of rows, with the columns of '{TOPIC}'"
    assert (hint is None) or hint in (error.value.hint or "")


UPSERTS = (
    "'connector' = 'upsert-kafka', 'topic' = 't', 'key.format' = 'json', 'value.format' = 'json', "
    "'properties.bootstrap.servers' = 'localhost:1'"
)


@pytest.mark.parametrize("options", [FILES, UPSERTS])
def test_only_topics_of_rows_have_the_option(options: str) -> None:
    env = TableEnvironment.create()
    env.execute_sql(f"CREATE TABLE t (k BIGINT, PRIMARY KEY (k) NOT ENFORCED) WITH ({options}, 'backfill.table' = 'h')")
    with pytest.raises(StateplanError) as error:
        env.explain_sql("SELECT * FROM t")
    assert error.value.code == "OPT104"
    assert "'backfill.from'" in (error.value.hint or "")
