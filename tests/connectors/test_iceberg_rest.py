"""Iceberg tables in a REST catalog, of a server in a process of its own."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitStateUnknownException
from pyiceberg.table import Table

from stateplan.common.changelog import RowKind
from stateplan.common.errors import RunError, StateplanError
from stateplan.connectors.iceberg import access
from stateplan.connectors.iceberg.sink import IcebergSink
from stateplan.connectors.protocol import Sink
from stateplan.connectors.registry import find_connector
from stateplan.session.environment import TableEnvironment
from tests.connectors.catalog_queries import collected, fails, rows
from tests.connectors.iceberg_tables import drained, sink_of, source_of
from tests.connectors.rest_catalog import DATABASE, RestServer, rest_server
from tests.support.delta import frame, race, write

KEYED = "k BIGINT NOT NULL, v STRING"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    with rest_server(tmp_path_factory.mktemp("server")) as running:
        yield running


class Lake:
    """A warehouse at the server.

    Attributes:
        options: of a table, which say where the catalog is.
    """

    def __init__(self, options: dict[str, str]) -> None:
        self.options = options

    def sink(self, *args: Any, **more: Any) -> Sink:
        return sink_of("", *args, **{"catalog-database": DATABASE, **self.options, **more})

    def rows(self, **more: str) -> list[tuple[Any, ...]]:
        options = {"catalog-database": DATABASE, **self.options, **more}
        return sorted(drained(source_of("", **options))[0], key=repr)

    def opened(self, name: str = "t") -> Table:
        """A table as the library itself opens it."""
        return RestCatalog("default", **self.options).load_table((DATABASE, name))

    def contents(self, name: str = "t") -> list[tuple[Any, ...]]:
        """The rows of a table as the library itself reads them."""
        return sorted(pl.DataFrame(pl.from_arrow(self.opened(name).scan().to_arrow())).rows(), key=repr)

    def session(self) -> TableEnvironment:
        """A session whose current catalog is this one."""
        env = TableEnvironment.create({"table.local-time-zone": "UTC"})
        options = {"type": "iceberg", "default-database": DATABASE, **self.options}
        env.execute_sql(f"CREATE CATALOG lake WITH ({', '.join(f'{k!r} = {v!r}' for k, v in options.items())})")
        env.use_catalog("lake")
        return env


@pytest.fixture
def lake(server: RestServer, tmp_path: Path, request: pytest.FixtureRequest) -> Lake:
    name = re.sub("[^a-z]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    return Lake(server.warehouse(name, f"file://{tmp_path}/lake"))


def test_statements_over_a_rest_catalog(lake: Lake) -> None:
    env = lake.session()
    env.execute_sql("CREATE TABLE t (k BIGINT, v STRING) PARTITIONED BY (v)")
    env.execute_sql("INSERT INTO t VALUES (1, 'a'), (2, 'b')").wait()
    first = lake.opened().current_snapshot()
    assert first is not None
    env.execute_sql("CREATE TABLE u AS SELECT k + 1 AS k FROM t").wait()
    env.execute_sql("INSERT OVERWRITE t VALUES (9, 'a')").wait()
    assert rows(env, "SHOW TABLES") == ["t", "u"]
    env.execute_sql("ALTER TABLE t ADD n INT")
    env.execute_sql("ALTER TABLE t SET ('sort-order' = 'k DESC')")
    env.execute_sql("ALTER TABLE u RENAME TO w")
    assert collected(env, "SELECT k, n FROM t") == [(2, None), (9, None)]
    assert collected(env, "SELECT k FROM w") == [(2,), (3,)]
    assert collected(env, f"SELECT k FROM t FOR SYSTEM_TIME AS OF {first.snapshot_id}") == [(1,), (2,)]
    env.execute_sql(f"CREATE DATABASE `{DATABASE}.other`")
    env.execute_sql(f"CREATE TABLE `{DATABASE}.other`.x (k INT)")
    assert f"{DATABASE}.other" in rows(env, "SHOW DATABASES")
    assert rows(env, "SHOW TABLES") == ["t", "w"]
    assert fails(lambda: env.execute_sql("SELECT * FROM nothing")).startswith("[CAT002]")
    assert lake.options["token"] not in str(rows(env, "SHOW CREATE TABLE t") + rows(env, "SHOW CREATE CATALOG lake"))


def test_changes_are_merged_over_rest(lake: Lake) -> None:
    sink = lake.sink(KEYED, ["k"])
    write(sink, 0, frame((1, "a"), (2, "b"), (3, "c")))
    for _ in range(2):
        write(sink, 1, frame((1, "A"), (2, "b"), kinds=[int(RowKind.UPDATE_AFTER), int(RowKind.DELETE)]))
    assert lake.rows() == lake.contents() == [(1, "A"), (3, "c")]
    with pytest.raises(RunError, match="RUN182"):
        lake.sink(KEYED, ["k"]).prepare(0)
    write(lake.sink(KEYED, ["k"], uid="other", overwrite=True), 0, frame((7, "z")))
    assert lake.rows() == [(7, "z")]
    env = lake.session()
    env.execute_sql(
        "CREATE TEMPORARY TABLE o (k BIGINT, p AS PROCTIME()) WITH ('connector' = 'datagen', 'number-of-rows' = '2', "
        "'fields.k.kind' = 'sequence', 'fields.k.start' = '7', 'fields.k.end' = '8')"
    )
    query = "SELECT o.k, t.v FROM o LEFT JOIN t FOR SYSTEM_TIME AS OF o.p ON o.k = t.k"
    assert collected(env, query) == [(7, "z"), (8, None)]


def test_a_commit_that_another_one_overtakes(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server refuses it, and the sink makes it again."""
    write(lake.sink(), 0, frame((1, "a")))
    attempts = []
    change = IcebergSink._change

    def overtaken(sink: IcebergSink, table: Table, *args: Any) -> bool:
        attempts.append(len(table.snapshots()))
        if len(attempts) == 1:
            lake.opened().append(pa.table({"k": [5], "v": ["other"]}))
        return change(sink, table, *args)

    monkeypatch.setattr(IcebergSink, "_change", overtaken)
    write(lake.sink(), 1, frame((2, "b")))
    assert attempts == [1, 2]
    assert lake.contents() == [(1, "a"), (2, "b"), (5, "other")]


def test_a_commit_whose_answer_is_lost(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    write(lake.sink(), 0, frame((1, "a")))
    commit = RestCatalog.commit_table

    def lost(self: RestCatalog, *args: Any) -> Any:
        commit(self, *args)
        raise CommitStateUnknownException("the gateway has timed out")

    monkeypatch.setattr(RestCatalog, "commit_table", lost)
    write(lake.sink(), 1, frame((2, "b")))
    monkeypatch.setattr(RestCatalog, "commit_table", commit)
    write(lake.sink(), 1, frame((2, "b")))
    assert lake.contents() == [(1, "a"), (2, "b")]


def test_writers_over_rest_at_the_same_time(lake: Lake) -> None:
    lake.sink().prepare(0)
    failures = race(lambda uid: lake.sink(uid=uid))
    # A writer that is behind finds a later micro-batch of the job.
    assert all(isinstance(error, RunError) and error.code == "RUN182" for error in failures), failures
    stored = lake.rows()
    assert [row for row in stored if row[1] == "same"] == [(0, "same"), (1, "same")]
    assert len(stored) == len(set(stored))


@pytest.mark.parametrize("login", ["token", "credential"])
def test_a_login_that_the_server_refuses(lake: Lake, login: str, caplog: pytest.LogCaptureFixture) -> None:
    write(lake.sink(), 0, frame((1, "a")))
    secret = "s3cr3t-that-nobody-sees"
    options = {key: text for key, text in lake.options.items() if key != "token"}
    away = Lake({**options, login: secret if login == "token" else f"client:{secret}"})
    with caplog.at_level(logging.DEBUG):
        for action in (away.rows, lambda: away.sink().prepare(0), away.session):
            message = fails(action)
            assert message.startswith("[DATA475]") and secret not in message
    assert secret not in caplog.text


def test_a_server_that_does_not_answer(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_TIMEOUTS", (1.0, 1.0))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        for port in (silent.getsockname()[1], 1):
            away = Lake({**lake.options, "uri": f"http://127.0.0.1:{port}"})
            for action in (away.rows, lambda away=away: away.sink().prepare(0), away.session):
                started = time.monotonic()
                with pytest.raises(StateplanError) as raised:
                    action()
                assert raised.value.code == "DATA475" and lake.options["token"] not in str(raised.value)
                assert time.monotonic() - started < 20


def test_warehouses_of_a_server_are_apart(server: RestServer, tmp_path: Path) -> None:
    lakes = [Lake(server.warehouse(f"apart-{name}", f"file://{tmp_path}/{name}")) for name in "ab"]
    sinks = [lake.sink() for lake in lakes]
    assert sinks[0].place != sinks[1].place  # type: ignore[attr-defined]
    for sink, value in zip(sinks, "ab", strict=True):
        write(sink, 0, frame((1, value)))
    assert [lake.rows() for lake in lakes] == [[(1, "a")], [(1, "b")]]
    identities = [find_connector(source).identity(source) for source in map(connector_options, lakes)]
    assert identities[0] != identities[1]


def connector_options(lake: Lake) -> dict[str, str]:
    return {"connector": "iceberg", "catalog-table": "t", **lake.options}


def test_files_on_a_store(server: RestServer, object_server: dict[str, str]) -> None:
    store = {
        "s3.endpoint": object_server["AWS_ENDPOINT_URL"],
        "s3.access-key-id": object_server["AWS_ACCESS_KEY_ID"],
        "s3.secret-access-key": object_server["AWS_SECRET_ACCESS_KEY"],
        "s3.region": object_server["AWS_DEFAULT_REGION"],
    }
    lake = Lake({**server.warehouse("on-a-store", "s3://bkt/rest", **store), **store})
    for _ in range(2):
        write(lake.sink(), 0, frame((1, "a")))
    assert lake.rows() == lake.contents() == [(1, "a")]
    assert lake.opened().location().startswith("s3://bkt/rest/")
