"""Traces of jobs: over HTTP to a receiver that decodes OTLP."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from stateplan.common.errors import DataError, OptionError
from tests.session.otlp_receiver import OtlpReceiver, Span, options_for, otlp_receiver
from tests.session.traced_jobs import JOIN, run, session
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with otlp_receiver() as receiver:
        yield receiver


def check_times(receiver: OtlpReceiver, span: Span) -> None:
    """Each span begins before it ends, and children are within their parents."""
    assert span.begin <= span.end, span.name
    for child in receiver.children(span):
        assert span.begin <= child.begin <= child.end <= span.end, f"{child.name} in {span.name}"
        check_times(receiver, child)


def test_a_micro_batch_is_one_trace(tmp_path: Path, receiver: OtlpReceiver) -> None:
    before = time.time_ns()
    root = run(session(tmp_path, receiver.url, **{"pipeline.name": "totals"}), receiver)
    assert receiver.outline(root) == [
        "micro-batch",
        "  plan",
        "  source default_catalog.default_database.orders[1]",
        "  level 1",
        "    join[5]",
        "  level 2",
        "    group-aggregate[8]",
        "  sink default_catalog.default_database.totals[10]",
        "  commit",
    ]
    assert before <= root.begin and root.end <= time.time_ns()
    check_times(receiver, root)
    assert {span.trace for span in receiver.spans} == {root.trace}
    parts = receiver.children(root)
    assert all(one.end <= other.begin for one, other in pairwise(parts))


def test_spans_say_what_happened(tmp_path: Path, receiver: OtlpReceiver) -> None:
    env = session(tmp_path, receiver.url, **{"pipeline.name": "totals"})
    root = run(env, receiver)
    job_id = env.session.jobs.entries()[0].id
    said = {name: root.attributes[f"stateplan.{name}"] for name in ("job.name", "job.id", "batch.id")}
    assert said == {"job.name": "totals", "job.id": job_id, "batch.id": 0}
    assert (root.attributes["stateplan.rows_in"], root.attributes["stateplan.rows_out"]) == (20, 2)
    assert len(root.attributes["stateplan.plan.hash"]) == 64
    level, _ = (span for span in receiver.children(root) if span.name.startswith("level"))
    assert level.attributes == {"stateplan.level": 1, "stateplan.operators": ["join[5]"]}
    (join,) = receiver.children(level)
    said = {name: join.attributes[f"stateplan.{name}"] for name in ("operator.id", "rows_in", "rows_out")}
    assert said == {"operator.id": 5, "rows_in": 40, "rows_out": 200}
    assert join.attributes["stateplan.state.names"] == ["leftState", "rightState"]
    assert join.attributes["stateplan.state.rows"] == [20, 20]
    assert min(join.attributes["stateplan.state.bytes"]) > 0 and join.attributes["stateplan.kernel_ms"] > 0
    assert root.resource["service.name"] == "stateplan"
    assert root.resource["service.instance.id"] == job_id
    assert root.resource["service.version"] == root.resource["stateplan.version"]
    assert root.resource["stateplan.plan.hash"] == root.attributes["stateplan.plan.hash"]


def test_variables_of_opentelemetry_are_respected(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test,service.instance.id=7")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Basic%20abc")
    env = session(tmp_path, receiver.url)
    env.execute_sql("RESET 'telemetry.opentelemetry.endpoint'")
    root = run(env, receiver)
    names = ("service.name", "deployment.environment.name", "service.instance.id")
    assert [root.resource[name] for name in names] == ["shop", "test", "7"]
    assert receiver.headers["authorization"] == "Basic abc"


@pytest.mark.parametrize(
    "variables",
    [{"OTEL_SDK_DISABLED": "true"}, {"OTEL_TRACES_SAMPLER": "always_off"}, {"OTEL_TRACES_EXPORTER": "none"}],
    ids=["disabled", "sampled", "no traces"],
)
def test_variables_of_opentelemetry_switch_traces_off(
    variables: dict[str, str], tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    messages: list[str] = []
    env = session(tmp_path, receiver.url)
    env.session.starter.console = messages.append
    env.execute_sql(JOIN).wait()
    time.sleep(0.3)
    assert not receiver.spans and not [m for m in messages if "RUN186" in m]


def test_a_job_that_fails_ends_its_trace_with_the_error(tmp_path: Path, receiver: OtlpReceiver) -> None:
    with pytest.raises(DataError):
        run(session(tmp_path, receiver.url, '{"k": "many", "v": 1}\n'), receiver)
    until(lambda: bool(receiver.roots()), 20)
    (root,) = receiver.roots()
    assert root.batch == 0 and root.attributes["error.type"] == "DATA112"
    assert root.proto.status.code == 2 and root.proto.status.message.startswith('[DATA112] "many" is not a value')
    assert [event.name for event in root.proto.events] == ["exception"]


def test_queries_send_nothing(tmp_path: Path, receiver: OtlpReceiver) -> None:
    env = session(tmp_path, receiver.url)
    assert len(list(env.execute_sql("SELECT k FROM orders").collect())) == 20
    run(env, receiver)
    assert len(receiver.roots()) == 1


def test_secrets_are_in_no_span(tmp_path: Path, receiver: OtlpReceiver) -> None:
    env = session(tmp_path, receiver.url, **{"pipeline.name": "'password' = 'hunter2-S3CRET'"})
    run(env, receiver)
    assert "hunter2" not in str(receiver.requests)


def test_a_receiver_that_is_away_is_reported_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3")
    with otlp_receiver() as receiver:
        url = receiver.url
    messages: list[str] = []
    env = session(tmp_path, url)
    env.session.starter.console = messages.append
    env.execute_sql(JOIN).wait()
    until(lambda: any("RUN186" in message for message in messages), 30)
    time.sleep(0.3)
    (message,) = (message for message in messages if "RUN186" in message)
    assert "Connection refused" in message


def test_a_receiver_that_refuses_spans_is_reported(tmp_path: Path, receiver: OtlpReceiver) -> None:
    receiver.status = 400
    messages: list[str] = []
    env = session(tmp_path, receiver.url)
    env.session.starter.console = messages.append
    env.execute_sql(JOIN).wait()
    until(lambda: any("RUN186" in message and "400" in message for message in messages), 20)


def test_a_slow_receiver_does_not_slow_down_the_job(tmp_path: Path, receiver: OtlpReceiver) -> None:
    receiver.seconds = 30
    session(tmp_path, receiver.url).execute_sql(JOIN).wait()


def test_spans_for_which_the_queue_has_no_room_are_counted(
    tmp_path: Path, receiver: OtlpReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "4")
    messages: list[str] = []
    env = session(tmp_path, receiver.url, **{"telemetry.opentelemetry.signals": "traces"})
    env.session.starter.console = messages.append
    (tmp_path / "replay.json").write_text("".join(f'{{"@at": {n}, "k": {n}}}\n' for n in range(1, 41)))
    location = f"'connector' = 'replay', 'path' = '{tmp_path}/replay.json', 'format' = 'json'"
    env.execute_sql(f"CREATE TABLE instants (k INT) WITH ({location})")
    env.execute_sql("INSERT INTO totals SELECT k, 1 FROM instants").wait()
    until(lambda: any("spans are lost" in message for message in messages), 20, "no report")
    (message,) = (message for message in messages if "RUN186" in message)
    lost, total = (int(word) for word in re.findall(r"(\d+) of (\d+) spans", message)[0])
    assert total == 40 * 5 and 0 < lost < total and len(receiver.spans) == total - lost


def _program(url: str, *lines: str) -> list[str]:
    code = f"""
{chr(10).join(lines)}
from stateplan.session.environment import TableEnvironment
env = TableEnvironment.create({options_for(url)!r})
env.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'blackhole')")
env.execute_sql("INSERT INTO t VALUES (1)").wait()
"""
    return [sys.executable, "-c", code]


def test_the_end_of_the_process_waits_for_the_last_spans(receiver: OtlpReceiver) -> None:
    receiver.seconds = 0.3
    command = _program(receiver.url, "import stateplan.session.job_followers as followers", "followers.PATIENCE = 100")
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=120, text=True)
    assert ([root.batch for root in receiver.roots()], ended.stderr) == ([0], "")


def test_a_thread_that_begins_when_the_process_is_ending_sends_its_spans(receiver: OtlpReceiver) -> None:
    late = """
import time
import stateplan.session.telemetry as telemetry
run = telemetry._Follower.run
telemetry._Follower.run = lambda follower: (time.sleep(0.5), run(follower))
"""
    ended = subprocess.run(
        _program(receiver.url, late), cwd=ROOT, check=True, capture_output=True, timeout=120, text=True
    )
    assert ([root.batch for root in receiver.roots()], ended.stderr) == ([0], "")


def test_the_end_of_the_process_does_not_wait_for_long(receiver: OtlpReceiver) -> None:
    receiver.seconds = 60
    command = _program(receiver.url, "import stateplan.session.job_followers as followers", "followers.PATIENCE = 0.2")
    ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=50, text=True)
    assert ended.stderr.count("RUN186") == 1


def test_without_the_option_nothing_is_imported_and_no_thread_runs() -> None:
    code = """
import sys, threading
from stateplan.session.environment import TableEnvironment
env = TableEnvironment.create()
env.execute_sql("CREATE TABLE t (k INT) WITH ('connector' = 'blackhole')")
job = env.execute_sql("INSERT INTO t VALUES (1)").job
job.wait()
assert not [m for m in sys.modules if m.startswith(("opentelemetry", "google.protobuf", "stateplan.session.tele"))]
assert not [m for m in sys.modules if m.startswith(("stateplan.session.job_f", "stateplan.session.job_spans"))]
assert not [t.name for t in threading.enumerate() if "telemetry" in t.name or "Otel" in t.name]
assert [record.timing for record in job.metrics] == [None]
"""
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=60)


def test_without_the_extra_the_job_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk", None)
    with pytest.raises(OptionError, match="OPT122"):
        session(tmp_path, "http://127.0.0.1:9").execute_sql(JOIN)


@pytest.mark.parametrize(
    ("options", "variables"),
    [
        ({"telemetry.opentelemetry.endpoint": "collector:4318"}, {}),
        ({"telemetry.opentelemetry.signals": "traces,metric"}, {}),
        ({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}),
        ({}, {"OTEL_TRACES_EXPORTER": "console"}),
        ({}, {"OTEL_PYTHON_EXPORTER_OTLP_HTTP_CREDENTIAL_PROVIDER": "nobody"}),
    ],
    ids=["no address", "unknown signal", "gRPC", "another exporter", "credentials"],
)
def test_values_that_cannot_be_used_are_refused(
    options: dict[str, str], variables: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    env = session(tmp_path, "http://127.0.0.1:9", **options)
    with pytest.raises(OptionError, match="OPT188"):
        env.execute_sql(JOIN)
