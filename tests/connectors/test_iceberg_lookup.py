"""Lookup joins with the connector ``iceberg``."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from pyiceberg.types import LongType

from stateplan.common.errors import DataError, OptionError
from stateplan.connectors.protocol import Lookup
from stateplan.connectors.registry import find_connector
from stateplan.session.environment import TableEnvironment
from tests.connectors.catalog_queries import collected
from tests.connectors.connector_tables import fields, source_table
from tests.connectors.iceberg_tables import opened, options, sink_of
from tests.support.delta import frame, write


def lookup_of(folder: Path, projection: list[int], **given_: str) -> Lookup:
    made = options(folder, **{key.replace("_", "-"): text for key, text in given_.items()})
    table = source_table(made, fields("k BIGINT, v STRING"), projection)
    return find_connector(made).lookup(table)


def test_rows_of_keys_in_the_current_snapshot(tmp_path: Path) -> None:
    sink = sink_of(tmp_path, "k BIGINT NOT NULL, v STRING", ["k"], partitioning="truncate(10, k)")
    write(sink, 0, frame(*((k, f"v{k % 3}") for k in range(50))))
    lookup = lookup_of(tmp_path, [1, 0])
    assert lookup.by_key and lookup.size() == 0
    keys = pl.DataFrame({"c1": [3, 3, 14, 99, None]})
    assert sorted(lookup.rows(0, keys).rows()) == [("v0", 3), ("v2", 14)]
    for path in {t.file.file_path for t in opened(tmp_path).scan(row_filter="k >= 20").plan_files()}:
        Path(path).unlink()
    assert sorted(lookup.rows(0, keys).rows()) == [("v0", 3), ("v2", 14)], "other files are not opened"
    write(sink, 1, frame((3, "new")))
    assert sorted(lookup.rows(0, pl.DataFrame({"c1": [3, 4], "c0": ["new", "x"]})).rows()) == [("new", 3)]


def test_many_keys_and_none(tmp_path: Path) -> None:
    write(sink_of(tmp_path), 0, frame(*((k, "v") for k in range(500))))
    lookup = lookup_of(tmp_path, [0])
    assert lookup.rows(0, pl.DataFrame({"c0": list(range(100, 400))})).height == 300
    assert lookup.rows(0, None).height == 500
    with pytest.raises(OptionError, match="is looked up"):
        lookup_of(tmp_path, [0], snapshot_id="1")


def test_a_type_that_becomes_wider_is_not_looked_up(tmp_path: Path) -> None:
    write(sink_of(tmp_path, "k BIGINT, v INT"), 0, frame((1, 2), columns="k BIGINT, v INT"))
    lookup = find_connector(options(tmp_path)).lookup(
        source_table(options(tmp_path), fields("k BIGINT, v INT"), [0, 1])
    )
    keys = pl.DataFrame({"c0": [1]})
    assert lookup.rows(0, keys).rows() == [(1, 2)]
    with opened(tmp_path).update_schema() as update:
        update.update_column("v", LongType())
    with pytest.raises(DataError, match="'v' as long, and it is declared as INT"):
        lookup.rows(0, keys)


def test_a_lookup_join(tmp_path: Path) -> None:
    write(sink_of(tmp_path), 0, frame((1, "a"), (2, "b")))
    env = TableEnvironment.create()
    env.execute_sql(
        "CREATE TABLE d (k BIGINT, v STRING) "
        f"WITH ('connector' = 'iceberg', 'warehouse' = '{tmp_path}', 'catalog-table' = 't')"
    )
    env.execute_sql(
        "CREATE TABLE o (k BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '3', "
        "'fields.k.kind' = 'sequence', 'fields.k.start' = '1', 'fields.k.end' = '3')"
    )
    query = "SELECT o.k, d.v FROM o LEFT JOIN d FOR SYSTEM_TIME AS OF o.p ON o.k = d.k"
    assert collected(env, query) == [(1, "a"), (2, "b"), (3, None)]
