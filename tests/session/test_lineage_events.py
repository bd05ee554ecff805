"""OpenLineage events of jobs: over HTTP to a real server, compared with drawings by hand, and checked by schemas."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from stateplan.common.errors import DataError, OptionError, StateplanError
from stateplan.common.redaction import MASK
from stateplan.connectors.registry import CONNECTORS
from stateplan.session.environment import TableEnvironment
from tests.session.lineage_examples import example, run, session
from tests.session.lineage_server import LineageServer, lineage_server, options_for, validate
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
SECRET = "hunter2-S3CRET"
STATS = """
    product_id <- orders.product_id DIRECT IDENTITY
    buyers     <- orders.user_id DIRECT AGGREGATION
    orders     <- orders.order_id DIRECT AGGREGATION
    items      <- orders.num DIRECT AGGREGATION
    *          <- orders.order_id INDIRECT WINDOW, orders.product_id INDIRECT GROUP_BY
"""
TRACKING = """
    order_id   <- orders.order_id DIRECT IDENTITY
    user_id    <- orders.user_id DIRECT IDENTITY
    product_id <- orders.product_id DIRECT IDENTITY
    num        <- orders.num DIRECT IDENTITY
    target     <- logistics.target DIRECT IDENTITY
    *          <- logistics.order_id INDIRECT JOIN, orders.order_id INDIRECT JOIN
"""


@pytest.fixture
def vault() -> Iterator[ModuleType]:
    sys.path.insert(0, str(ROOT / "tests" / "packages" / "stateplan_vault"))
    module = importlib.import_module("stateplan_vault")
    CONNECTORS["vault"] = module.Vault()
    yield module
    del CONNECTORS["vault"]
    sys.path.pop(0)


@pytest.fixture
def server() -> Iterator[LineageServer]:
    with lineage_server() as server:
        yield server


def drawing(output: dict[str, Any]) -> dict[str, str]:
    """The column lineage of an output, a text per column; ``*`` for the rows."""

    def text(fields: list[dict[str, Any]]) -> str:
        uses = [
            f"{Path(field['name']).name}.{field['field']} {step['type']} {step['subtype']}"
            for field in fields
            for step in field["transformations"]
        ]
        return ", ".join(sorted(uses))

    facet = output["facets"]["columnLineage"]
    return {**{n: text(f["inputFields"]) for n, f in facet["fields"].items()}, "*": text(facet["dataset"])}


def drawn(lines: str) -> dict[str, str]:
    pairs = (line.partition("<-") for line in lines.strip().splitlines())
    return {column.strip(): uses.strip() for column, _, uses in pairs}


@pytest.mark.parametrize(
    ("name", "inputs", "lines"),
    [("product_stats", {"orders": 8}, STATS), ("order_tracking", {"orders": 8, "logistics": 3}, TRACKING)],
)
def test_events_of_the_examples_are_as_drawn(
    tmp_path: Path, server: LineageServer, name: str, inputs: dict[str, int], lines: str
) -> None:
    env = session(tmp_path, server.url, **{"table.exec.state.ttl": "1 d"})
    event = run(env, server, example(name))
    assert server.states() == ["START", "COMPLETE"]
    first = server.events[0]
    assert {e["run"]["runId"] for e in server.events} == {event["run"]["runId"]}
    assert uuid.UUID(event["run"]["runId"]).version == 7
    assert first["eventTime"] <= event["eventTime"]
    assert (event["job"]["namespace"], event["job"]["name"]) == (
        "stateplan",
        f"insert-into_default_catalog.default_database.{name}",
    )
    data = tmp_path / "examples" / "data"
    assert {(d["namespace"], d["name"]): d["inputFacets"]["inputStatistics"]["rowCount"] for d in event["inputs"]} == {
        ("file", str(data / table)): rows for table, rows in inputs.items()
    }
    assert not first["inputs"][0].get("inputFacets")
    (output,) = event["outputs"]
    assert (output["namespace"], output["name"]) == ("file", str(tmp_path / "examples" / "out" / name))
    assert drawing(output) == drawn(lines)
    assert drawing(first["outputs"][0]) == drawn(lines)
    assert output["outputFacets"]["outputStatistics"]["rowCount"] > 0
    states = {s["selector"]: s for s in event["run"]["facets"]["stateplan_states"]["states"]}
    assert {s["ttlMillis"] for s in states.values()} == {86_400_000}
    selectors = {"product_stats": {"deduplicate", "group-aggregate"}, "order_tracking": {"join.left", "join.right"}}
    assert set(states) == selectors[name]
    assert event["job"]["facets"]["sql"]["query"].startswith("INSERT INTO")


def test_schemas_have_flinks_types(tmp_path: Path, server: LineageServer) -> None:
    event = run(session(tmp_path, server.url), server, example("product_stats"))
    fields = {f["name"]: f["type"] for f in event["inputs"][0]["facets"]["schema"]["fields"]}
    assert fields["order_id"] == "BIGINT"
    assert fields["ts"] == "TIMESTAMP(3)"


def test_a_job_that_fails_ends_with_its_error(tmp_path: Path, server: LineageServer) -> None:
    env = session(tmp_path, server.url)
    (tmp_path / "examples" / "data" / "orders" / "rows.json").write_text('{"order_id": "many", "user_id": 4711}\n')
    with pytest.raises(DataError):
        env.execute_sql(example("product_stats")).wait()
    until(lambda: server.states()[-1:] == ["FAIL"], 20)
    message = server.events[-1]["run"]["facets"]["errorMessage"]["message"]
    validate(server.events[-1])
    assert message == "[DATA112] \"many\" is not a value of the column 'order_id', which is BIGINT"


@pytest.mark.parametrize("opens", [True, False])
def test_secrets_are_in_no_event(tmp_path: Path, server: LineageServer, vault: ModuleType, opens: bool) -> None:
    env = session(tmp_path, server.url, **{"pipeline.name": f"job with {SECRET}"})
    digest = vault.digest(SECRET if opens else "another one")
    env.execute_sql(f"CREATE TABLE safe (a INT) WITH ('connector' = 'vault', 'digest' = '{digest}')")
    env.execute_sql("CREATE TABLE target (a INT) WITH ('connector' = 'blackhole')")
    result = env.execute_sql(f"INSERT INTO target SELECT a FROM safe /*+ OPTIONS('password' = '{SECRET}') */")
    with nullcontext() if opens else pytest.raises(StateplanError):
        result.wait()
    until(lambda: server.states()[-1:] == ["COMPLETE" if opens else "FAIL"], 20)
    assert SECRET not in json.dumps(server.events)
    assert server.events[-1]["job"]["name"] == f"job with {MASK}"
    assert server.events[-1]["inputs"][0]["name"] == "default_catalog.default_database.safe"


def test_queries_send_nothing(tmp_path: Path, server: LineageServer) -> None:
    env = session(tmp_path, server.url)
    assert len(list(env.execute_sql("SELECT order_id FROM orders").collect())) == 8
    run(env, server, example("product_stats"))
    assert len({event["run"]["runId"] for event in server.events}) == 1


def test_a_server_that_is_away_is_reported_once(tmp_path: Path) -> None:
    with lineage_server() as server:
        url = server.url
    messages: list[str] = []
    env = session(tmp_path, url, **{"lineage.openlineage.transport.retry.total": "0"})
    env.session.starter.console = messages.append
    before = time.monotonic()
    env.execute_sql(example("order_tracking")).wait()
    assert time.monotonic() - before < 5
    rows = [p.read_text() for p in (tmp_path / "examples" / "out" / "order_tracking").rglob("*") if p.is_file()]
    assert "".join(rows).count("town") == 6
    until(lambda: any("RUN179" in message for message in messages), 30)
    time.sleep(0.3)
    assert sum("RUN179" in message for message in messages) == 1


def test_a_server_that_refuses_an_event_is_reported(tmp_path: Path, server: LineageServer) -> None:
    server.status = 400
    messages: list[str] = []
    env = session(tmp_path, server.url)
    env.session.starter.console = messages.append
    env.execute_sql(example("order_tracking")).wait()
    until(lambda: any("RUN179" in message and "400" in message for message in messages), 20)


def test_a_slow_server_does_not_slow_down_the_job(tmp_path: Path, server: LineageServer) -> None:
    server.seconds = 30
    before = time.monotonic()
    session(tmp_path, server.url).execute_sql(example("order_tracking")).wait()
    assert time.monotonic() - before < 5


def test_the_end_of_the_process_waits_for_the_last_event(server: LineageServer) -> None:
    server.seconds = 0.5
    code = f"""
from stateplan.session.environment import TableEnvironment
env = TableEnvironment.create({options_for(server.url)!r})
env.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'blackhole')")
env.execute_sql("INSERT INTO t VALUES (1)").wait()
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True, timeout=60)
    assert server.states() == ["START", "COMPLETE"]


def test_the_end_of_the_process_does_not_wait_for_long(server: LineageServer) -> None:
    server.seconds = 60
    code = f"""
import stateplan.session.job_followers as followers
from stateplan.session.environment import TableEnvironment
followers.PATIENCE = 0.2
env = TableEnvironment.create({options_for(server.url)!r})
env.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'blackhole')")
env.execute_sql("INSERT INTO t VALUES (1)").wait()
"""
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=50, text=True)
    assert ended.stderr.count("RUN179") == 1


def test_without_the_option_nothing_is_imported_and_no_thread_runs() -> None:
    code = """
import sys, threading
from stateplan.session.environment import TableEnvironment
env = TableEnvironment.create()
env.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'blackhole')")
env.execute_sql("INSERT INTO t VALUES (1)").wait()
assert not [m for m in sys.modules if m.startswith(("openlineage", "stateplan.session.lineage"))]
assert "stateplan.plans.column_lineage" not in sys.modules
assert not [t.name for t in threading.enumerate() if "lineage" in t.name]
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_without_the_extra_the_job_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    env = session(tmp_path, "http://127.0.0.1:9")
    with pytest.raises(OptionError, match="OPT122"):
        env.execute_sql(example("product_stats"))


@pytest.mark.parametrize(
    "options",
    [{}, {"lineage.openlineage.transport.type": "pigeon"}, {"lineage.openlineage.transport.type": "http"}],
    ids=["no transport", "unknown transport", "no URL"],
)
def test_a_client_without_a_transport_is_refused(
    options: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    env = TableEnvironment.create({"lineage.openlineage.enabled": "true", **options})
    env.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'blackhole')")
    with pytest.raises(OptionError, match="OPT177"):
        env.execute_sql("INSERT INTO t VALUES (1)")
