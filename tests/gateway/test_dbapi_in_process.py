"""The DB-API module at a gateway of its own process, without a network."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import stateplan.gateway.dbapi as dbapi
from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.gateway.in_process_gateway import gateway_here

STATEMENTS = (
    "SELECT CAST(1.50 AS DECIMAL(5, 2)) AS b, 0.1E0 AS c, TIMESTAMP '2026-01-02 03:04:05.678' AS d, X'00ff' AS e",
    "SELECT n, CAST(NULL AS STRING) AS s FROM (VALUES 1, 2, 3, 4, 5) AS t (n)",
    "SELECT ARRAY[1, 2] AS a, MAP['x', CAST(1 AS DECIMAL(3, 1))] AS m, ROW('k', DATE '2026-01-01') AS r",
    "SHOW CATALOGS",
    "SHOW JOBS",
    "CREATE TABLE IF NOT EXISTS sink (n INT) WITH ('connector' = 'blackhole')",
)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[SqlGatewayService]:
    """Pages have two rows."""
    service = SqlGatewayService(Limits(idle_timeout=0, page_rows=2), folder=tmp_path / "gateway")
    yield service
    service.stop()


def test_results_are_those_of_a_gateway_over_http(service: SqlGatewayService) -> None:
    with (
        gateway_here(service) as running,
        dbapi.connect(f"http://127.0.0.1:{running.port}") as remote,
        dbapi.connect(service) as local,
    ):
        for statement in STATEMENTS:
            results = []
            for connection in (remote, local):
                with connection.cursor() as cursor:
                    cursor.execute(statement)
                    results.append((cursor.description, cursor.description and cursor.fetchall()))
            assert results[0] == results[1], statement


def test_jobs_errors_and_options(service: SqlGatewayService) -> None:
    with dbapi.connect(service, {"table.dml-sync": "true"}, name="here") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE sink (n INT) WITH ('connector' = 'blackhole')")
        cursor.execute("INSERT INTO sink VALUES (1)")
        assert cursor.job_id == service.jobs.entries()[0].id
        assert service.jobs.entries()[0].status == "FINISHED"
        with pytest.raises(dbapi.ProgrammingError) as wrong:
            cursor.execute("SELECT * FROM nowhere")
        assert wrong.value.code == "CAT002"
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect(service, {"table.dml-sync": "perhaps"})
