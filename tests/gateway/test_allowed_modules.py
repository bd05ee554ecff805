"""A gateway imports functions of Python only from the modules that it was started with, whoever names them."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from stateplan.common.errors import GatewayError
from stateplan.gateway.service.job_store import RUNNING, JobStore, StoredJob
from stateplan.gateway.service.service import SqlGatewayService
from stateplan.planner.catalog.functions import CatalogFunction
from stateplan.planner.catalog.objects import ObjectIdentifier
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import JobRecord
from tests.support.canary import Canary
from tests.support.waiting import until

TABLES = (
    "CREATE TABLE t (a BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}/in', 'format' = 'json')",
    "CREATE TABLE o (a BIGINT) WITH ('connector' = 'filesystem', 'path' = '{}/out', 'format' = 'json')",
)
INTO, FROM = (f"default_catalog.default_database.{table}" for table in "ot")
INSERT = f"INSERT INTO {INTO} SELECT f(a) FROM {FROM}"
Start = Callable[..., SqlGatewayService]


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Canary:
    return Canary(tmp_path, monkeypatch)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[SqlGatewayService] = []

    def make(*modules: str) -> SqlGatewayService:
        started.append(SqlGatewayService(folder=tmp_path / "state", modules=modules, keep_unknown=True))
        return started[-1]

    yield make
    for service in started:
        service.stop()


def environment(service: SqlGatewayService, folder: Path) -> TableEnvironment:
    found = service.open_session("test").environment
    for table in TABLES:
        found.execute_sql(table.format(folder))
    return found


def catalog_with_a_function(folder: Path, canary: Canary) -> None:
    """A folder of a catalog as a session that may import everything leaves it, and a plan that calls its function."""
    free = TableEnvironment.create()
    for table in TABLES:
        free.execute_sql(table.format(folder))
    free.execute_sql(f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{folder}/catalog')")
    free.execute_sql("USE CATALOG c")
    free.execute_sql(f"CREATE FUNCTION f AS '{canary.name}.f' LANGUAGE PYTHON")
    free.execute_sql(f"COMPILE PLAN '{folder}/plan.json' FOR {INSERT}")


def forget(canary: Canary) -> None:
    import sys

    sys.modules.pop(canary.name, None)
    canary.ran.unlink(missing_ok=True)


def test_statements_declare_functions_of_allowed_modules_only(start: Start, canary: Canary, tmp_path: Path) -> None:
    env = environment(start("other", "canary"), tmp_path)
    for statement in (
        f"CREATE FUNCTION f AS '{canary.name}.f' LANGUAGE PYTHON",
        f"CREATE TEMPORARY SYSTEM FUNCTION f AS '{canary.name}.f' LANGUAGE PYTHON",
        f"ALTER FUNCTION f AS '{canary.name}.f' LANGUAGE PYTHON",
        "CREATE FUNCTION f AS 'os.system' LANGUAGE PYTHON",
        "CREATE FUNCTION f AS 'others.f' LANGUAGE PYTHON",
        "CREATE FUNCTION f AS 'f' LANGUAGE PYTHON",
    ):
        with pytest.raises(GatewayError) as refused:
            env.execute_sql(statement)
        assert refused.value.code == "GW014"
    env.execute_sql("CREATE FUNCTION g AS 'other.f' LANGUAGE PYTHON")
    env.execute_sql("CREATE FUNCTION h AS 'other.inside.f' LANGUAGE PYTHON")
    assert not canary.sang


def test_functions_of_a_catalog_and_of_a_plan(start: Start, canary: Canary, tmp_path: Path) -> None:
    catalog_with_a_function(tmp_path, canary)
    forget(canary)
    env = environment(start(), tmp_path)
    env.execute_sql(f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{tmp_path}/catalog')")
    env.execute_sql("USE CATALOG c")
    env.execute_sql("DESCRIBE FUNCTION f")
    env.execute_sql(f"EXPLAIN PLAN '{tmp_path}/plan.json'")
    env.execute_sql("SHOW FUNCTIONS")
    for statement in (
        f"EXECUTE PLAN '{tmp_path}/plan.json'",
        f"SELECT f(a) FROM {FROM}",
        f"EXPLAIN {INSERT}",
        INSERT,
        "DESCRIBE FUNCTION EXTENDED f",
        f"CREATE VIEW v AS SELECT f(a) AS x FROM {FROM}",
    ):
        with pytest.raises(GatewayError) as refused:
            env.execute_sql(statement)
        assert refused.value.code == "GW014", statement
        assert canary.name in str(refused.value)
    assert not canary.sang
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("allowed", ["its name", "*"])
def test_an_allowed_module_is_imported(start: Start, canary: Canary, tmp_path: Path, allowed: str) -> None:
    catalog_with_a_function(tmp_path, canary)
    forget(canary)
    env = environment(start(allowed if allowed == "*" else canary.name), tmp_path)
    env.execute_sql(f"CREATE CATALOG c WITH ('type' = 'file', 'path' = '{tmp_path}/catalog')")
    env.execute_sql("USE CATALOG c")
    env.execute_sql(f"EXPLAIN {INSERT}")
    assert canary.sang


def test_a_job_in_the_folder_whose_function_is_of_another_module(start: Start, canary: Canary, tmp_path: Path) -> None:
    """The job was allowed by the gateway before, or somebody has written it."""
    catalog_with_a_function(tmp_path, canary)
    forget(canary)
    function = CatalogFunction("f", ObjectIdentifier("c", "default", "f"), f"{canary.name}.f", "PYTHON", temporary=True)
    plan = (tmp_path / "plan.json").read_text()
    record = JobRecord("job", INSERT, plan, (function,), {}, uuid.uuid4().hex, str(tmp_path / "checkpoint"), 1)
    store = JobStore(tmp_path / "state")
    (tmp_path / "state" / "jobs" / str(record.id)).mkdir()
    store.started(record)
    assert store.all() == [StoredJob(record, RUNNING)]
    store.release()
    service = start()
    until(lambda: service.jobs.find(str(record.id)).status == "FAILED", 30)
    assert "GW014" in str(service.jobs.find(str(record.id)).error)
    assert not canary.sang


def test_a_session_of_ones_own_imports_everything(canary: Canary, tmp_path: Path) -> None:
    service = SqlGatewayService()
    env = environment(service, tmp_path)
    env.execute_sql(f"CREATE FUNCTION f AS '{canary.name}.f' LANGUAGE PYTHON")
    env.execute_sql("EXPLAIN SELECT f(a) FROM t")
    assert canary.sang
    service.stop()
