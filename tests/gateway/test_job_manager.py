"""The read-only part of Flink's JobManager REST: its paths, fields and shapes, behind the gateway's own rules."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stateplan import TableEnvironment
from stateplan.gateway.rest.guard import Access
from stateplan.gateway.rest.job_manager import details, exposition_of
from stateplan.gateway.service.service import SqlGatewayService
from stateplan.runtime.job import Job
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo, OperatorInfo, StateSize
from stateplan.runtime.metrics.view import JobView
from stateplan.session.jobs import JobEntry
from tests.gateway.in_process_gateway import GatewayHere, gateway_here

TOKEN = "0123456789abcdef0123456789abcdef"
FAILED, DONE, ASKED = "a" * 32, "b" * 32, "c" * 32


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHere]:
    service = SqlGatewayService(folder=tmp_path_factory.mktemp("jobs"), keep_unknown=True)
    info = JobInfo(DONE, "job", 1000, 0, (OperatorInfo("0a", 1, "source", "t"), OperatorInfo("0b", 2, "sink", "o")), 4)
    batches = tuple(
        BatchMetrics(n, 0, 1000 * n, 100.0 * (n + 1), {}, {"0b": StateSize([1], [500 * (n + 1)], [1])})
        for n in range(20)
    )
    last = JobView(info, 30_000, None, batches, {}, 20)
    options = {"pipeline.name": "x", "my.password": "hunter2"}
    service.jobs.list(
        JobEntry(FAILED, "f", "INSERT", 5, ended=9, status="FAILED", error="[DATA301] no\n hint", plan="{}")
    )
    service.jobs.list(
        JobEntry(
            DONE,
            "d",
            "INSERT",
            1000,
            ended=4000,
            status="FINISHED",
            plan="{}",
            options=options,
            last=last,
            checkpoint=Path("/data/checkpoint"),
        )
    )
    service.jobs.list(JobEntry(ASKED, "SELECT 1", "SELECT 1", 1, ended=2, status="FINISHED"))
    with gateway_here(service) as found:
        yield found


def get(gateway: GatewayHere, path: str, status: int = 200) -> object:
    for prefix in ("", "/v1"):
        answer = gateway.http.get(prefix + path)
        assert answer.status_code == status, answer.text
    return answer.json()


def test_lists(gateway: GatewayHere) -> None:
    assert get(gateway, "/overview") == {
        "taskmanagers": 1, "slots-total": 0, "slots-available": 0, "jobs-running": 0, "jobs-finished": 1,
        "jobs-cancelled": 0, "jobs-failed": 1, "flink-version": "2.3.0", "flink-commit": "",
    }  # fmt: skip
    assert get(gateway, "/jobs") == {"jobs": [{"id": DONE, "status": "FINISHED"}, {"id": FAILED, "status": "FAILED"}]}
    found = get(gateway, "/jobs/overview")
    assert isinstance(found, dict)
    (done, _) = found["jobs"]
    assert (done["jid"], done["state"], done["duration"], done["tasks"]["finished"]) == (DONE, "FINISHED", 3000, 8)
    assert done["tasks"]["total"] == 8


ANSWERS = json.loads((Path(__file__).parent / "job_manager_answers.json").read_text())
"""Answers of a JobManager of Flink 2.3.0 about a job that failed, one that finished and one that ran with checkpoints,
with the first of each list alone."""


def shape(answer: Any) -> Any:
    """The names in an answer, and the JSON types of their values. A number may be without a value."""
    if isinstance(answer, dict):
        return {name: shape(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [shape(value) for value in answer[:1]]
    return (
        "number"
        if (isinstance(answer, (int, float)) and not isinstance(answer, bool)) or answer == "NaN"
        else str(type(answer).__name__)
    )


@pytest.mark.parametrize("path", ANSWERS)
def test_answers_have_the_names_and_types_of_flink(gateway: GatewayHere, path: str) -> None:
    found: Any = get(gateway, path.format(job=FAILED if path.endswith("exceptions") else DONE))
    if path.endswith("/config") and path != "/config":
        found["execution-config"]["user-config"] = {}
    assert shape(found) == shape(ANSWERS[path])


def test_one_job(gateway: GatewayHere) -> None:
    dashes = f"{DONE[:8]}-{DONE[8:12]}-{DONE[12:16]}-{DONE[16:20]}-{DONE[20:]}"
    for name in (DONE, dashes, DONE.upper()):
        found = get(gateway, f"/jobs/{name}")
        assert isinstance(found, dict)
        assert (found["jid"], found["timestamps"]["FINISHED"], found["end-time"]) == (DONE, 4000, 4000)
        assert [(v["id"], v["parallelism"], v["status"]) for v in found["vertices"]] == [
            ("0a".ljust(32, "0"), 4, "FINISHED"),
            ("0b".ljust(32, "0"), 4, "FINISHED"),
        ]
        assert [node["id"] for node in found["plan"]["nodes"]] == [vertex["id"] for vertex in found["vertices"]]
        assert all(len(bytes.fromhex(vertex["slotSharingGroupId"])) == 16 for vertex in found["vertices"])
    assert get(gateway, f"/jobs/{FAILED}/exceptions")["exceptionHistory"]["entries"][0]["exceptionName"] == "DATA301"  # type: ignore[index]
    assert get(gateway, f"/jobs/{DONE}/exceptions")["exceptionHistory"] == {"entries": [], "truncated": False}  # type: ignore[index]
    assert "hunter2" not in str(get(gateway, f"/jobs/{DONE}/config"))
    assert get(gateway, f"/jobs/{DONE}/config")["execution-config"]["user-config"]["pipeline.name"] == "x"  # type: ignore[index]
    points = get(gateway, f"/jobs/{DONE}/checkpoints")
    assert isinstance(points, dict)
    assert points["counts"] == {"restored": 0, "total": 20, "in_progress": 0, "completed": 20, "failed": 0}
    assert points["latest"]["completed"]["id"] == 19
    assert points["latest"]["completed"]["state_size"] == 10_000
    assert points["latest"]["completed"]["num_subtasks"] == 8
    assert points["summary"]["end_to_end_duration"]["max"] == 2000
    assert len(points["history"]) == 10
    assert get(gateway, f"/jobs/{FAILED}/checkpoints")["latest"]["completed"] is None  # type: ignore[index]


def test_the_plan_has_the_edges_between_operators_with_figures() -> None:
    env = TableEnvironment.create({})
    for name in ("t", "u", "o"):
        env.execute_sql(f"CREATE TABLE {name} (a INT, n BIGINT) WITH ('connector' = 'blackhole')")
    env.execute_sql("CREATE TABLE s (a INT, n BIGINT) WITH ('connector' = 'datagen')")
    query = "INSERT INTO o SELECT s.a, r.n FROM s JOIN (SELECT a, n FROM s WHERE n > 1) r ON s.a = r.a"
    document = env.compile_plan_sql(query).document
    kinds = {"table-source-scan": "source", "sink": "sink", "join": "operator"}
    names = {node.id: node.title for node in document.graph.nodes}
    infos = [OperatorInfo(f"0{key}", key, kinds[name], name) for key, name in names.items() if name in kinds]
    view = JobView(JobInfo(DONE, "job", 1000, 0, tuple(infos), 4), 30_000, None, (), {}, 20)
    entry = JobEntry(DONE, "d", "INSERT", 1000, ended=4000, status="FINISHED", plan=document.text, last=view)
    nodes = {node["description"]: node for node in details(entry)["plan"]["nodes"]}
    source = nodes["table-source-scan"]["id"]
    assert "inputs" not in nodes["table-source-scan"]
    assert nodes["join"]["inputs"] == [
        {"id": source, "num": number, "exchange": "pipelined_bounded", "ship_strategy": "HASH"} for number in (0, 1)
    ]
    assert [(edge["id"], edge["ship_strategy"]) for edge in nodes["sink"]["inputs"]] == [
        (nodes["join"]["id"], "FORWARD")
    ]


def test_metrics(gateway: GatewayHere) -> None:
    names = get(gateway, "/jobs/metrics")
    assert isinstance(names, list)
    assert {"id": "numberOfCompletedCheckpoints"} in names
    found = get(gateway, "/jobs/metrics?get=numberOfCompletedCheckpoints,nothing")
    assert found == [
        {"id": "numberOfCompletedCheckpoints", "min": 0.0, "max": 20.0, "avg": 10.0, "sum": 20.0, "skew": 100.0}
    ]
    found = get(gateway, "/jobs/metrics?get=numberOfCompletedCheckpoints&agg=max,sum")
    assert found == [{"id": "numberOfCompletedCheckpoints", "max": 20.0, "sum": 20.0}]
    (found,) = get(gateway, f"/jobs/metrics?get=numberOfCompletedCheckpoints&jobs={DONE}")  # type: ignore[misc]
    assert found["min"] == 20.0 and found["skew"] == 0.0
    assert "(agg)" in str(get(gateway, "/jobs/metrics?agg=median", 400))
    assert "(jobs)" in str(get(gateway, "/jobs/metrics?jobs=nosuch", 400))


def test_what_is_not_there(gateway: GatewayHere) -> None:
    assert "RUN060" in str(get(gateway, f"/jobs/{'d' * 32}", 404))
    assert "Cannot resolve path parameter (jobid)" in str(get(gateway, "/jobs/nosuch/exceptions", 400))
    for method in ("POST", "PATCH", "DELETE"):
        assert gateway.http.request(method, f"/jobs/{DONE}").status_code in (404, 405)
    gateway.assert_well()


def test_the_rules_of_the_gateway_hold(tmp_path: Path) -> None:
    with gateway_here(SqlGatewayService(folder=tmp_path, keep_unknown=True), Access(token=TOKEN)) as gateway:
        for path in (
            "/config",
            "/overview",
            "/jobs",
            "/jobs/overview",
            "/jobs/metrics",
            f"/jobs/{DONE}",
            f"/jobs/{DONE}/config",
        ):
            assert gateway.http.get(path).status_code == 401
            allowed = gateway.http.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
            assert allowed.status_code in (200, 404)
            assert gateway.http.get(path, headers={"Origin": "http://evil.example"}).status_code == 403


def test_prometheus_gets_the_status_of_all_jobs(gateway: GatewayHere) -> None:
    answer = gateway.http.get("/metrics")
    assert answer.status_code == 200 and answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples = [s for family in text_string_to_metric_families(answer.text) for s in family.samples]
    assert {sample.name for sample in samples} == {"stateplan_job_status"}
    assert {s.labels["job_id"]: (s.labels["job_name"], s.labels["status"], s.value) for s in samples} == {
        FAILED: ("f", "FAILED", 1),
        DONE: ("d", "FINISHED", 1),
    }


def test_prometheus_gets_the_metrics_of_jobs_that_run() -> None:
    running = SimpleNamespace(view=JobView(JobInfo(DONE, "job", 1000, 0, (OperatorInfo("0a", 1, "source", "t"),)), 9))
    text = exposition_of(
        [
            JobEntry(DONE, "d", "INSERT", 1, status="RUNNING", plan="{}", job=cast("Job", running)),
            JobEntry(FAILED, "f", "INSERT", 5, ended=9, status="FAILED", plan="{}"),
        ]
    )
    samples = [s for family in text_string_to_metric_families(text) for s in family.samples]
    assert {s.labels["job_id"] for s in samples if s.name != "stateplan_job_status"} == {DONE}
    assert len({s.name for s in samples}) > 10
