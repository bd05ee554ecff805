"""Spans that are made of the record of a micro-batch, without OpenTelemetry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from stateplan.connectors.datasets import Dataset
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo, OperatorInfo, StateSize
from stateplan.runtime.metrics.timing import BatchTiming, stamp, take_intervals
from stateplan.session.job_spans import SpanTree, batch_spans, failed_batch

INFO = JobInfo(
    "4711",
    "orders",
    0,
    0,
    (
        OperatorInfo("s", 1, "source", "orders[1]"),
        OperatorInfo("j", 2, "operator", "join[2]", ("left", "right"), 0, 1),
        OperatorInfo("a", 3, "operator", "group-aggregate[3]", ("sums",), 8, 2),
        OperatorInfo("t", 4, "sink", "totals[4]"),
    ),
)
TIMING = BatchTiming(
    1100, 1900, 1800, {"s": (1200, 1300), "j": (1350, 1500), "a": (1550, 1700), "t": (1710, 1790)}, 1000
)
SPARK = {"latestOffset": 20.0, "queryPlanning": 30.0, "commitOffsets": 40.0, "triggerExecution": 1000.0}
RECORD = BatchMetrics(
    7,
    999,
    1100,
    800.0,
    {"s": {"rows_in": 5.0}, "j": {"rows_in": 5.0, "late_rows": 0.0}, "t": {"rows_in": 2.0}},
    {"j": StateSize([3, 4], [30, 40], [1, 1])},
    {"a": 77},
    SPARK,
    timing=TIMING,
)


def outline(tree: SpanTree, depth: int = 0) -> list[str]:
    lines = [f"{'  ' * depth}{tree.name} {tree.begin:.0f} {tree.end:.0f}"]
    return lines + [line for child in tree.children for line in outline(child, depth + 1)]


def test_times_of_a_job_of_spark() -> None:
    assert outline(batch_spans(RECORD, INFO, {})) == [
        "micro-batch 1000 2000",
        "  plan 1000 1100",
        "    latestOffset 1000 1020",
        "    queryPlanning 1020 1050",
        "  source orders[1] 1200 1300",
        "  level 1 1350 1500",
        "    join[2] 1350 1500",
        "  level 2 1550 1700",
        "    group-aggregate[3] 1550 1700",
        "  sink totals[4] 1710 1790",
        "  commit 1800 2000",
        "    sinks 1800 1900",
        "    commitOffsets 1960 2000",
    ]


def test_attributes_are_figures_and_sizes_of_state() -> None:
    tree = batch_spans(RECORD, INFO, {})
    assert tree.attributes == {
        "stateplan.job.name": "orders",
        "stateplan.job.id": "4711",
        "stateplan.batch.id": 7,
        "stateplan.batch.time": 999,
        "stateplan.rows_in": 5,
        "stateplan.rows_out": 2,
    }
    spans = {span.name: span for level in tree.children for span in (level, *level.children)}
    assert spans["join[2]"].attributes == {
        "stateplan.operator.id": 2,
        "stateplan.operator.uid": "j",
        "stateplan.rows_in": 5,
        "stateplan.state.names": ("left", "right"),
        "stateplan.state.rows": (3, 4),
        "stateplan.state.bytes": (30, 40),
    }
    assert spans["group-aggregate[3]"].attributes["stateplan.watermark"] == 77


def test_a_span_of_a_machine_with_another_clock_stays_within_its_parent() -> None:
    timing = replace(TIMING, operators={"s": (10, 20), "j": (1350, 99_999), "a": (500, 1400)})
    lines = outline(batch_spans(replace(RECORD, timing=timing), INFO, {}))
    assert {"  source orders[1] 1000 1000", "    join[2] 1350 2000", "    group-aggregate[3] 1000 1400"} <= set(lines)


def test_a_record_without_times_has_the_root_and_the_commit() -> None:
    assert outline(batch_spans(replace(RECORD, timing=None, spark={}), INFO, {})) == [
        "micro-batch 1100 1900",
        "  commit 1900 1900",
    ]


@pytest.mark.parametrize(
    ("namespace", "node", "kind", "expected"),
    [
        ("kafka://b1:9092", 1, "CONSUMER", {"messaging.system": "kafka", "messaging.operation.type": "receive",
                                            "messaging.batch.message_count": 5}),
        ("kafka://b1:9092", 4, "PRODUCER", {"messaging.operation.type": "send", "messaging.destination.name": "x"}),
        ("postgres://b1:9092", 1, "CLIENT", {"db.system.name": "postgresql", "db.response.returned_rows": 5}),
        ("postgres://b1:9092", 4, "CLIENT", {"db.collection.name": "x", "db.operation.batch.size": 2}),
    ],
)  # fmt: skip
def test_tables_have_the_attributes_of_the_conventions(
    namespace: str, node: int, kind: str, expected: dict[str, object]
) -> None:
    tree = batch_spans(RECORD, INFO, {node: (Dataset(namespace, "x"),)})
    (span,) = (s for s in tree.children if s.name in ("source orders[1]" if node == 1 else "sink totals[4]",))
    assert span.kind == kind
    assert {**expected, "server.address": "b1", "server.port": 9092}.items() <= span.attributes.items()


def test_files_have_no_further_attributes() -> None:
    tree = batch_spans(RECORD, INFO, {1: (Dataset("file", "/data"),)})
    span = next(s for s in tree.children if s.name == "source orders[1]")
    assert span.kind == "INTERNAL" and all(name.startswith("stateplan.") for name in span.attributes)


def test_a_failure_has_its_code() -> None:
    tree = failed_batch(8, 2000, 1990, INFO, ("DATA112", "no number"))
    assert (tree.begin, tree.end, tree.error) == (2000, 2000, ("DATA112", "no number"))
    assert tree.attributes["error.type"] == "DATA112" and tree.attributes["stateplan.batch.id"] == 8


def test_intervals_cover_all_tasks_of_an_operator() -> None:
    from stateplan.runtime.metrics.figures import add_all

    first, second = stamp({"busy_ms": 10.0}), stamp({"busy_ms": 500.0})
    total = add_all(add_all({}, {"j": first}), {"j": second, "s": stamp({"rows_in": 1.0})})
    intervals = take_intervals(total)
    assert intervals.keys() == {"j"} and total == {"j": {"busy_ms": 510.0}, "s": {"rows_in": 1.0}}
    begin, end = intervals["j"]
    assert end - begin == pytest.approx(500, abs=20)
