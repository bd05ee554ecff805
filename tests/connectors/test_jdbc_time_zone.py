"""The time zone in which ``jdbc`` takes a TIMESTAMP for a ``timestamptz``: that of the session."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pytest

from stateplan.common.errors import StateplanError
from stateplan.connectors.jdbc.sink import JdbcSink
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from tests.connectors.jdbc_tables import changes, options, source, write
from tests.support.postgres import PASSWORD, Database, Postgres, fresh_lookups

COLUMNS = "id INT, moment TIMESTAMP(3), moments ARRAY<TIMESTAMP(3)>, shown STRING"


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The zone of the machine is another one."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("JDBC_PASSWORD", PASSWORD)
    with fresh_lookups():
        yield


@pytest.fixture(scope="module")
def events(postgres: Postgres) -> Database:
    """A database with the table ``events``, whose only row is of noon in Greenwich."""
    made = postgres.database()
    noon = "'2020-06-01 12:00:00+00'::timestamptz"
    made.execute(
        "CREATE TABLE events (id int PRIMARY KEY, moment timestamptz, moments timestamptz[], shown timestamptz)",
        f"INSERT INTO events VALUES (1, {noon}, ARRAY[{noon}, NULL], {noon})",
        "CREATE TABLE copies (LIKE events INCLUDING ALL)",
    )
    return made


def session(database: Database, zone: str | None) -> TableEnvironment:
    made = TableEnvironment.create({} if zone is None else {"table.local-time-zone": zone})
    for name in ("events", "copies"):
        given = options(database, name, {"password": "${env:JDBC_PASSWORD}"})
        pairs = ", ".join(f"'{key}' = '{text}'" for key, text in given.items())
        made.execute_sql(f"CREATE TABLE {name} ({COLUMNS}, PRIMARY KEY (id) NOT ENFORCED) WITH ({pairs})")
    return made


def rows(made: TableEnvironment, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in made.execute_sql(query).collect()]


@pytest.mark.parametrize(
    ("zone", "hour", "offset"),
    [("UTC", 12, "+00"), ("Europe/Berlin", 14, "+02"), ("GMT-08:00", 4, "-08"), ("GMT+05:30", 17.5, "+05:30"),
     ("default", 21, "+09"), (None, 21, "+09")],
)  # fmt: skip
def test_scans_lookups_and_sinks_use_the_zone_of_the_session(
    events: Database, zone: str | None, hour: float, offset: str
) -> None:
    made = session(events, zone)
    there = dt.datetime(2020, 6, 1) + dt.timedelta(hours=hour)
    row = (1, there, [there, None], f"{there:%Y-%m-%d %H:%M:%S}{offset}")
    assert rows(made, "SELECT * FROM events") == [row]

    values = f"(1, TIMESTAMP '{there}'), (1, TIMESTAMP '1999-01-01 00:00:00')"
    made.execute_sql(f"CREATE VIEW asks AS SELECT id, moment, PROCTIME() AS p FROM (VALUES {values}) AS v (id, moment)")
    join = "FROM asks JOIN events FOR SYSTEM_TIME AS OF asks.p AS e ON asks.id = e.id"
    assert rows(made, f"SELECT e.* {join}") == [row, row]
    assert rows(made, f"SELECT e.* {join} AND asks.moment = e.moment") == [row]

    plan = made.compile_plan_sql("INSERT INTO copies SELECT * FROM events").document
    (spec,) = translate(plan.graph, made.get_config().to_dict(), key_groups=1).sinks
    assert isinstance(spec.writer, JdbcSink)
    events.execute("TRUNCATE copies", "DROP TABLE IF EXISTS stateplan_epochs")
    write(spec.writer, 0, changes(COLUMNS, (*row[:3], f"{there}")))
    spec.writer.close()
    assert events.rows("SELECT * FROM copies") == events.rows("SELECT * FROM events")


def test_a_zone_that_the_database_does_not_know(events: Database) -> None:
    with pytest.raises(StateplanError) as caught:
        source(events, "events", COLUMNS, time_zone="Asia/Atlantis").check("events")
    assert caught.value.code == "RUN149", caught.value
    assert "does not know the time zone 'Asia/Atlantis'" in str(caught.value)
