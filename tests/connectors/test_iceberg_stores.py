"""Iceberg tables on an object store: moto, in a process of its own."""

from __future__ import annotations

import logging
import pickle
import socket
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

from stateplan.common.changelog import RowKind
from stateplan.common.errors import DataError, RunError, StateplanError
from stateplan.common.roots import Roots, holding
from stateplan.connectors.protocol import Sink
from stateplan.session.environment import TableEnvironment
from tests.connectors.catalog_queries import collected, fails, rows
from tests.connectors.iceberg_tables import drained, sink_of, source_of
from tests.connectors.object_store import client, credentials_demanded
from tests.support.delta import frame, race, write

KEYED = "k BIGINT NOT NULL, v STRING"
SECRET = "s3cr3t-that-nobody-sees"


@dataclass(frozen=True)
class Lake:
    """A warehouse in the bucket, with its catalog on disk.

    Attributes:
        warehouse: its URL.
        options: of a table, which say where the catalog and the store are.
    """

    warehouse: str
    options: dict[str, str]

    def sink(self, *args: Any, **more: Any) -> Sink:
        return sink_of(self.warehouse, *args, **{**self.options, **more})

    def rows(self, **more: str) -> list[tuple[Any, ...]]:
        return sorted(drained(source_of(self.warehouse, **{**self.options, **more}))[0], key=repr)

    def opened(self, name: str = "t") -> Table:
        """A table as the library itself opens it."""
        properties = {**self.options, "s3.secret-access-key": "secret", "warehouse": self.warehouse}
        return SqlCatalog("default", **properties).load_table(("default", name))

    def contents(self, name: str = "t") -> list[tuple[Any, ...]]:
        """The rows of a table as the library itself reads them."""
        return sorted(pl.DataFrame(pl.from_arrow(self.opened(name).scan().to_arrow())).rows(), key=repr)

    def session(self) -> TableEnvironment:
        """A session whose current catalog is this one."""
        env = TableEnvironment.create({"table.local-time-zone": "UTC"})
        options = {"type": "iceberg", "warehouse": self.warehouse, **self.options}
        env.execute_sql(f"CREATE CATALOG lake WITH ({', '.join(f'{k!r} = {v!r}' for k, v in options.items())})")
        env.use_catalog("lake")
        return env


@pytest.fixture
def lake(
    object_server: dict[str, str], tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Lake:
    monkeypatch.setenv("LAKE_SECRET", object_server["AWS_SECRET_ACCESS_KEY"])
    options = {
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "s3.endpoint": object_server["AWS_ENDPOINT_URL"],
        "s3.access-key-id": object_server["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": "${env:LAKE_SECRET}",
        "s3.region": "us-east-1",
    }
    return Lake(f"s3://bkt/{request.node.name.partition('[')[0]}", options)


def test_rows_are_appended_to_a_table_on_a_store(lake: Lake) -> None:
    columns, partitions = "k BIGINT, p STRING", {"partitioning": "p"}
    sink = lake.sink(columns, **partitions)
    for _ in range(2):
        write(sink, 0, frame((1, "a b"), (2, None)))
    write(sink, 1, frame((3, "a/b?")))
    source = source_of(lake.warehouse, columns, streaming="true", **lake.options)
    first, end = drained(source)
    assert first == [(3, "a/b?")]
    write(sink, 2, frame((4, "c")))
    assert drained(source, end)[0] == [(4, "c")]
    assert lake.contents() == [(1, "a b"), (2, None), (3, "a/b?"), (4, "c")]
    assert len(lake.opened().snapshots()) == 3
    path = next(iter(lake.opened().scan().plan_files())).file.file_path
    assert path.startswith(f"{lake.warehouse}/default/t/data/p=")


def test_changes_are_merged_on_a_store_and_looked_up(lake: Lake) -> None:
    sink = lake.sink(KEYED, ["k"])
    write(sink, 0, frame((1, "a"), (2, "b"), (3, "c")))
    for _ in range(2):
        write(sink, 1, frame((1, "A"), (2, "b"), kinds=[int(RowKind.UPDATE_AFTER), int(RowKind.DELETE)]))
    assert lake.rows() == lake.contents() == [(1, "A"), (3, "c")]
    write(lake.sink(KEYED, ["k"], uid="other", overwrite=True), 0, frame((7, "z")))
    assert lake.rows() == [(7, "z")]
    env = lake.session()
    env.execute_sql(
        "CREATE TEMPORARY TABLE o (k BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '2', "
        "'fields.k.kind' = 'sequence', 'fields.k.start' = '7', 'fields.k.end' = '8')"
    )
    query = "SELECT o.k, t.v FROM o LEFT JOIN t FOR SYSTEM_TIME AS OF o.p ON o.k = t.k"
    assert collected(env, query) == [(7, "z"), (8, None)]


def test_statements_over_a_catalog_on_a_store(lake: Lake) -> None:
    env = lake.session()
    env.execute_sql("CREATE TABLE t (k BIGINT, v STRING) PARTITIONED BY (v)")
    env.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')").wait()
    first = lake.opened().current_snapshot()
    assert first is not None
    env.execute_sql("CREATE TABLE u AS SELECT k + 1 AS k FROM t").wait()
    env.execute_sql("INSERT OVERWRITE t VALUES (9, 'a')").wait()
    assert rows(env, "SHOW TABLES") == ["t", "u"]
    env.execute_sql("ALTER TABLE t ADD n INT")
    env.execute_sql("ALTER TABLE u RENAME TO w")
    assert collected(env, "SELECT k, n FROM t") == [(2, None), (9, None)]
    assert collected(env, "SELECT k FROM w") == [(2,), (3,)]
    assert collected(env, f"SELECT k FROM t FOR SYSTEM_TIME AS OF {first.snapshot_id}") == [(1,), (2,)]
    env.execute_sql("CREATE DATABASE other")
    env.execute_sql("CREATE TABLE other.x (k INT)")
    assert rows(env, "SHOW DATABASES") == ["default", "other"]
    assert fails(lambda: env.execute_sql("DROP TABLE t")).startswith("[CAT110]")


def test_no_secret_of_a_store_is_shown(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    env = Lake(lake.warehouse, {**lake.options, "s3.session-token": SECRET}).session()
    env.execute_sql("CREATE TABLE t (k BIGINT)")
    secret = {**lake.options, "s3.access-key-id": f"id-{SECRET}", "s3.secret-access-key": SECRET}
    options = {"connector": "iceberg", "warehouse": lake.warehouse, "catalog-table": "t", **secret}
    with caplog.at_level(logging.DEBUG):
        env.execute_sql(
            f"CREATE TEMPORARY TABLE d (k BIGINT) WITH ({', '.join(f'{k!r} = {v!r}' for k, v in options.items())})"
        )
        shown = [
            *(str(rows(env, f"SHOW CREATE {what}")) for what in ("TABLE t", "TABLE d", "CATALOG lake")),
            str(env.execute_sql("DESCRIBE CATALOG EXTENDED lake").rows),
            *(str(rows(env, f"EXPLAIN {kind} INSERT INTO d SELECT k FROM t")) for kind in ("", "CHANGELOG_MODE")),
            env.compile_plan_sql("INSERT INTO d SELECT k FROM t").as_json_string(),
            fails(lambda: env.execute_sql("SELECT nothing FROM d")),
            repr(pickle.loads(pickle.dumps(sink_of(lake.warehouse, **secret))).target),
        ]
    assert not any(SECRET in text for text in [*shown, caplog.text])
    assert sum("${env:LAKE_SECRET}" in text for text in shown) >= 2, "references stay"


def in_time(action: Any, code: str, *words: str) -> None:
    started = time.monotonic()
    with pytest.raises(StateplanError) as raised:
        action()
    assert raised.value.code == code and SECRET not in str(raised.value)
    assert all(word in raised.value.message for word in words), raised.value.message
    assert time.monotonic() - started < 30


def test_a_key_that_the_store_refuses(lake: Lake, object_server: dict[str, str]) -> None:
    write(lake.sink(), 0, frame((1, "a")))
    with credentials_demanded(object_server) as own:
        good = {"s3.access-key-id": own[0], "s3.secret-access-key": own[1]}
        assert lake.rows(**good) == [(1, "a")]
        for wrong in ({**good, "s3.secret-access-key": SECRET}, {**good, "s3.access-key-id": f"AKIA{SECRET}"}):
            in_time(lambda wrong=wrong: lake.rows(**wrong), "DATA475", "ACCESS_DENIED")
            in_time(lambda wrong=wrong: lake.sink(**wrong).prepare(1), "DATA475", "ACCESS_DENIED")
            in_time(lambda wrong=wrong: lake.sink(**wrong, table="new").prepare(0), "DATA475", "ACCESS_DENIED")


def test_a_store_that_does_not_answer(lake: Lake) -> None:
    write(lake.sink(), 0, frame((1, "a")))
    env = lake.session()
    insert = "INSERT INTO t /*+ OPTIONS('s3.endpoint' = 'http://127.0.0.1:1') */ VALUES (2, 'b')"
    in_time(lambda: env.execute_sql(insert).wait(), "DATA475", "NETWORK_CONNECTION")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        away = {"s3.endpoint": f"http://127.0.0.1:{silent.getsockname()[1]}", "s3.secret-access-key": SECRET}
        source = source_of(lake.warehouse, **{**lake.options, **away, "s3.request-timeout": "1"})
        in_time(lambda: source.check("t"), "DATA475", "Timeout")
    assert lake.contents() == [(1, "a")]


def test_a_bucket_that_there_is_not(lake: Lake) -> None:
    away = Lake("s3://nobody/lake", lake.options)
    in_time(lambda: away.sink().prepare(0), "DATA475", "NO_SUCH_BUCKET")
    in_time(lambda: away.session().execute_sql("CREATE TABLE t (k INT)"), "DATA475", "'nobody'")


def test_a_file_that_is_gone_from_the_store(lake: Lake, object_server: dict[str, str]) -> None:
    write(lake.sink(), 0, frame((1, "a")))
    file = next(iter(lake.opened().scan().plan_files())).file.file_path
    client("s3", object_server).delete_object(Bucket="bkt", Key=file.removeprefix("s3://bkt/"))
    with pytest.raises(DataError) as raised:
        lake.rows()
    assert raised.value.code == "DATA477" and file in str(raised.value)


def test_nobody_is_asked_for_the_region_of_a_bucket(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str | None] = []
    monkeypatch.setattr("pyiceberg.io.pyarrow._cached_resolve_s3_region", lambda bucket: asked.append(bucket))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    del lake.options["s3.region"]
    write(lake.sink(), 0, frame((1, "a")))
    assert lake.rows() == [(1, "a")] and asked == []


def test_tables_of_glue(object_server: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment says where all is, and no option."""
    for name, text in object_server.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, text)
    lake = Lake("s3://bkt/glue", {"catalog-type": "glue"})
    for epoch in (0, 0, 1):
        write(lake.sink(), epoch, frame((epoch, "a")))
        rows_of_keys = frame((5, str(epoch)), (epoch, "b"))
        write(lake.sink(KEYED, ["k"], table="keyed"), epoch, rows_of_keys)
    assert lake.rows() == [(0, "a"), (1, "a")] and lake.rows(table="keyed") == [(0, "b"), (1, "b"), (5, "1")]
    env = lake.session()
    env.execute_sql("CREATE TABLE made AS SELECT k FROM t").wait()
    env.execute_sql("ALTER TABLE made ADD n INT")
    assert sorted(map(str, rows(env, "SHOW TABLES"))) == ["keyed", "made", "t"]
    assert collected(env, "SELECT k, n FROM made") == [(0, None), (1, None)]


def test_writers_to_a_store_at_the_same_time(lake: Lake) -> None:
    lake.sink().prepare(0)
    failures = race(lambda uid: lake.sink(uid=uid))
    # A writer that is behind finds a later micro-batch of the job.
    assert all(isinstance(error, RunError) and error.code == "RUN182" for error in failures), failures
    found = lake.rows()
    assert [row for row in found if row[1] == "same"] == [(0, "same"), (1, "same")]
    assert len(found) == len(set(found))


def test_roots_hold_on_a_store(lake: Lake) -> None:
    write(lake.sink(), 0, frame((1, "a")))
    folder = lake.options["uri"].removeprefix("sqlite:///").rpartition("/")[0]
    with holding(Roots((folder, lake.warehouse))):
        assert lake.rows() == [(1, "a")]
        write(lake.sink(), 1, frame((2, "b")))
    with holding(Roots((folder, "s3://bkt/another"))):
        for action in (lake.rows, lambda: lake.sink().prepare(2)):
            assert fails(action).startswith("[GW012]")
    with lake.opened().transaction() as change:
        change.set_properties({"s3.endpoint": lake.options["s3.endpoint"].replace("127.0.0.1", "localhost")})
    assert len(lake.rows()) == 2, "without roots"
    with holding(Roots((folder, lake.warehouse))):
        assert fails(lake.rows).startswith("[GW012]")
