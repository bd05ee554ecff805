"""Figures for Prometheus: what its own parser reads of them, and Flink's options for the endpoint."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator

import pytest

from stateplan.common.errors import RunError
from stateplan.runtime.checkpoint.locks import Holder
from stateplan.runtime.metrics.figures import add_figures
from stateplan.runtime.metrics.prometheus import FACTORY, Endpoint, Reporter, exposition, reporters
from stateplan.runtime.metrics.view import JobView
from tests.support.job_records import JOIN, info, record

PREFIX = "metrics.reporter.prom."
CLASS = {PREFIX + "factory.class": FACTORY}


def view(batches: int = 2, writer: bool = True) -> JobView:
    records = [record(n) for n in range(batches)]
    totals: dict[str, dict[str, float]] = {}
    for one in records:
        for uid, figures in one.operators.items():
            add_figures(totals.setdefault(uid, {}), figures)
    return JobView(info(), 1_002_000, Holder(1, "here", 0) if writer else None, tuple(records), totals, batches)


def samples(text: str) -> dict[str, dict[tuple[tuple[str, str], ...], float]]:
    """Name -> labels without those of the job -> value."""
    from prometheus_client.parser import text_string_to_metric_families

    out: dict[str, dict[tuple[tuple[str, str], ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            assert (sample.labels["job_id"], sample.labels["job_name"]) == ("4711", 'the "job"')
            kept = {n: v for n, v in sample.labels.items() if not n.startswith(("job_", "task_", "operator_name"))}
            out.setdefault(sample.name, {})[tuple(sorted(kept.items()))] = sample.value
    return out


def test_figures_come_back_through_the_parser_of_prometheus() -> None:
    found = samples(exposition(view()))
    of = (("operator_id", JOIN),)
    operator = "flink_taskmanager_job_task_operator_"
    assert found[operator + "numRecordsIn"][of] == 200 and found[operator + "numRecordsOut"][of] == 300
    assert found[operator + "numLateRecordsDropped"][of] == 4
    assert found[operator + "currentInputWatermark"] == {of: 60_000}
    assert found["flink_jobmanager_job_lastCheckpointDuration"] == {(): 500}
    assert found["flink_jobmanager_job_lastCheckpointSize"] == {(): 2048}
    assert found["flink_jobmanager_job_numberOfCompletedCheckpoints"] == {(): 2}
    rows = found["stateplan_rows_in_total"]
    assert {labels: n for labels, n in rows.items() if of[0] in labels} == {
        (("input", "0"), ("kind", "+I"), *of): 120,
        (("input", "1"), ("kind", "+I"), *of): 60,
        (("input", "1"), ("kind", "-D"), *of): 20,
    }
    stored = {(*of, ("state", "left-state")): 1001, (*of, ("state", "right-state")): 20}
    assert found["stateplan_state_stored_rows"] == stored
    assert found["stateplan_state_expired_rows_total"] == {(*of, ("state", "right-state")): 8}
    assert found["stateplan_phase_seconds_total"][*of, ("phase", "lookup")] == pytest.approx(0.4)
    assert found["stateplan_cache_misses_total"][of] == 2
    assert found["stateplan_running"] == {(): 1}
    # two micro-batches of 100 rows in the two seconds from the first one's begin to now
    assert found[operator + "numRecordsInPerSecond"][of] == pytest.approx(100)


def test_a_job_before_its_first_micro_batch_has_figures_too() -> None:
    found = samples(exposition(view(0, writer=False)))
    assert found["stateplan_running"] == {(): 0} and "stateplan_batch" not in found


def test_the_used_share_of_a_state_budget() -> None:
    shown = view()
    shown.recent[-1].budgets = {"job": 0.25, "join.left": 1.5}
    found = samples(exposition(shown))["stateplan_state_budget_used"]
    assert found == {(("budget", "job"),): 0.25, (("budget", "join.left"),): 1.5}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    running = Endpoint(Reporter(range(1)), view)
    yield running
    running.close()


def test_the_endpoint_answers_and_the_next_one_takes_the_next_port(endpoint: Endpoint) -> None:
    url = f"http://127.0.0.1:{endpoint.port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain")
        assert samples(answer.read().decode())["stateplan_batch"] == {(): 1}
    with pytest.raises(RunError) as caught:
        Endpoint(Reporter(range(endpoint.port, endpoint.port + 1)), view)
    assert caught.value.code == "RUN084" and str(endpoint.port) in caught.value.message
    with socket.socket() as free:
        free.bind(("", 0))
        port = free.getsockname()[1]
    if port > endpoint.port:
        other = Endpoint(Reporter(range(endpoint.port, port + 1)), view)
        other.close()
        assert endpoint.port < other.port <= port


def test_labels_are_filtered_as_flink_does_when_that_is_set() -> None:
    [reporter] = reporters({**CLASS, PREFIX + "port": "0", PREFIX + "filterLabelValueCharacters": "true"})
    running = Endpoint(reporter, view)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{running.port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
    finally:
        running.close()
    assert 'operator_name="join5"' in text and 'job_name="thejob"' in text and 'kind="-D"' in text


@pytest.mark.parametrize(
    ("options", "ports"),
    [
        ({}, []),
        (CLASS, [range(9249, 9250)]),
        ({"metrics.reporters": "prom", **CLASS, PREFIX + "port": "9250-9260"}, [range(9250, 9261)]),
        (
            {"metrics.reporters": "a,prom", "metrics.reporter.a.factory.class": FACTORY, **CLASS},
            [range(9249, 9250)] * 2,
        ),
        ({"metrics.reporters": "prom", **CLASS, "metrics.reporter.jmx.factory.class": "x"}, [range(9249, 9250)]),
    ],
)
def test_reporters_of_options(options: dict[str, str], ports: list[range]) -> None:
    assert [r.ports for r in reporters(options)] == ports


@pytest.mark.parametrize(
    ("options", "code", "hint"),
    [
        ({PREFIX + "factory.class": FACTORY[:-1]}, "RUN080", FACTORY),
        ({**CLASS, PREFIX + "port": "92x"}, "RUN081", ""),
        ({**CLASS, PREFIX + "port": "9260-9250"}, "RUN081", ""),
        ({**CLASS, PREFIX + "port": "70000"}, "RUN081", ""),
        ({"metrics.reporters": "prmo", **CLASS}, "RUN082", "prom"),
        ({"metrics.reporters": "prom"}, "RUN082", ""),
        ({**CLASS, PREFIX + "prot": "9250"}, "RUN083", "port"),
        ({**CLASS, PREFIX + "filterLabelValueCharacters": "yes"}, "RUN083", ""),
    ],
)
def test_options_that_are_wrong_are_said(options: dict[str, str], code: str, hint: str) -> None:
    with pytest.raises(RunError) as caught:
        reporters(options)
    assert caught.value.code == code and hint in (caught.value.hint or "") and caught.value.expected
