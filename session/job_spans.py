"""The spans of a micro-batch: a tree of names, times and attributes, made of the record of its figures.

Without a library; :mod:`session.telemetry` sends it. Names of attributes are those of OpenTelemetry's semantic
conventions where there is one, else ``stateplan.`` and the name of the figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from urllib.parse import urlsplit

from stateplan.common.lazy_dataclass import dataclass
from stateplan.connectors.datasets import Dataset
from stateplan.connectors.registry import connectors
from stateplan.runtime.metrics.figures import FIGURES
from stateplan.runtime.metrics.records import BatchMetrics, JobInfo, OperatorInfo
from stateplan.runtime.metrics.timing import BatchTiming, Interval

Value = str | int | float | Sequence[str] | Sequence[int]

ROOT = "micro-batch"
"""The name of the span of a whole micro-batch."""

_PLANNING = ("latestOffset", "getOffset", "walCommit", "getBatch", "queryPlanning")
"""Spark's phases before the tasks of a micro-batch, in their order. Source: ``MicroBatchExecution``."""

_DATABASES = {"postgres": "postgresql", "mysql": "mysql"}
"""By the scheme of a dataset, the name of its database in OpenTelemetry's conventions."""


@dataclass(frozen=True)
class SpanTree:
    """A span, and those within it.

    Attributes:
        name: of the span.
        begin, end: ms since 1970.
        attributes: by name.
        children: within it.
        kind: INTERNAL, CONSUMER, PRODUCER or CLIENT.
        error: code and message of what it failed of; None otherwise.
    """

    name: str
    begin: float
    end: float
    attributes: Mapping[str, Value] = field(default_factory=dict)
    children: tuple[SpanTree, ...] = ()
    kind: str = "INTERNAL"
    error: tuple[str, str] | None = None

    def within(self, begin: float, end: float) -> SpanTree:
        """The span as a child of a span with these times. Clocks of machines differ, and Spark's durations are whole
        milliseconds."""
        first = min(max(self.begin, begin), end)
        last = min(max(self.end, first), end)
        return replace(self, begin=first, end=last, children=tuple(c.within(first, last) for c in self.children))


def batch_spans(record: BatchMetrics, info: JobInfo, datasets: Mapping[int, Sequence[Dataset]]) -> SpanTree:
    """The spans of a committed micro-batch.

    Args:
        record: its figures, with their times.
        info: the job.
        datasets: by id of a node of the plan, what it reads or writes.
    """
    finish = record.started + record.ms
    timing = record.timing or BatchTiming(record.started, finish, finish)
    begin, end = _interval(record, timing)
    by_kind: dict[str, list[OperatorInfo]] = {"source": [], "operator": [], "sink": []}
    for operator in info.operators:
        by_kind[operator.kind].append(operator)
    children = [
        *_planning(record, timing),
        *(span for o in by_kind["source"] for span in _table(o, record, timing, datasets)),
        *_levels(by_kind["operator"], record, timing),
        *(span for o in by_kind["sink"] for span in _table(o, record, timing, datasets)),
        _commit(record, timing, max(timing.end, end)),
    ]
    attributes: dict[str, Value] = {
        **job_attributes(info, record.batch),
        "stateplan.batch.time": record.time,
        "stateplan.rows_in": _total(record, by_kind["source"]),
        "stateplan.rows_out": _total(record, by_kind["sink"]),
    }
    return SpanTree(ROOT, begin, end, attributes, tuple(children)).within(begin, end)


def failed_batch(batch: int, began: float, ended: float, info: JobInfo, error: tuple[str, str]) -> SpanTree:
    """The span of a micro-batch that failed, or that could not be planned.

    Args:
        batch: its id.
        began, ended: ms since 1970.
        info: the job.
        error: code and message.
    """
    attributes = {**job_attributes(info, batch), "error.type": error[0]}
    return SpanTree(ROOT, began, max(began, ended), attributes, error=error)


def job_attributes(info: JobInfo, batch: int | None) -> dict[str, Value]:
    """What spans and logs say of their job and micro-batch."""
    attributes: dict[str, Value] = {"stateplan.job.name": info.name, "stateplan.job.id": info.job_id}
    return attributes if batch is None else {**attributes, "stateplan.batch.id": batch}


def _interval(record: BatchMetrics, timing: BatchTiming) -> Interval:
    """When a micro-batch began and ended, with what Spark did around it."""
    if timing.planning is None:
        return timing.begin, timing.end
    end = timing.planning + record.spark.get("triggerExecution", 0.0)
    return min(timing.begin, timing.planning), max(end, timing.end)


def _planning(record: BatchMetrics, timing: BatchTiming) -> Iterator[SpanTree]:
    """What happens before the tasks. Spark says how long its phases took, and not when: one follows the other."""
    if timing.planning is None:
        return
    at, phases = timing.planning, []
    for name in _PLANNING:
        if name in record.spark:
            phases.append(SpanTree(name, at, at + record.spark[name]))
            at += record.spark[name]
    yield SpanTree("plan", timing.planning, timing.begin, children=tuple(phases))


def _levels(operators: Sequence[OperatorInfo], record: BatchMetrics, timing: BatchTiming) -> Iterator[SpanTree]:
    for level in sorted({o.level for o in operators}):
        spans = [
            SpanTree(o.name, *timing.operators[o.uid], _operator(o, record))
            for o in operators
            if o.level == level and o.uid in timing.operators
        ]
        if spans:
            attributes: dict[str, Value] = {
                "stateplan.level": level,
                "stateplan.operators": tuple(s.name for s in spans),
            }
            begin, end = min(s.begin for s in spans), max(s.end for s in spans)
            yield SpanTree(f"level {level}", begin, end, attributes, tuple(spans))


def _operator(operator: OperatorInfo, record: BatchMetrics) -> dict[str, Value]:
    """The attributes of an operator: its figures, and the size of its state after the micro-batch."""
    figures = record.operators.get(operator.uid, {})
    attributes: dict[str, Value] = {"stateplan.operator.id": operator.id, "stateplan.operator.uid": operator.uid}
    attributes |= {f"stateplan.{name}": _short(figures[name]) for name in FIGURES if figures.get(name)}
    size = record.state.get(operator.uid)
    if size is not None and operator.states:
        attributes["stateplan.state.names"] = operator.states
        attributes["stateplan.state.rows"] = tuple(size.rows)
        attributes["stateplan.state.bytes"] = tuple(size.bytes)
    if operator.uid in record.watermarks:
        attributes["stateplan.watermark"] = record.watermarks[operator.uid]
    return attributes


def _table(
    operator: OperatorInfo, record: BatchMetrics, timing: BatchTiming, datasets: Mapping[int, Sequence[Dataset]]
) -> Iterator[SpanTree]:
    """The span of a source or a sink that was read or written in a micro-batch."""
    if operator.uid not in timing.operators:
        return
    kind, attributes = "INTERNAL", _operator(operator, record)
    rows = int(record.operators.get(operator.uid, {}).get("rows_in", 0))
    for dataset in datasets.get(operator.id, ())[:1]:
        kind, conventional = _conventions(dataset, operator.kind == "source", rows)
        attributes |= conventional
    yield SpanTree(f"{operator.kind} {operator.name}", *timing.operators[operator.uid], attributes, kind=kind)


@cache
def _messaging_systems() -> frozenset[str]:
    return frozenset(connector.messaging_system for connector in connectors() if connector.messaging_system)


def _conventions(dataset: Dataset, is_source: bool, rows: int) -> tuple[str, dict[str, Value]]:
    """The kind of a span, and OpenTelemetry's attributes, for a table of a broker or a database."""
    place = urlsplit(dataset.namespace)
    address: dict[str, Value] = {}
    if place.hostname:
        address["server.address"] = place.hostname
        if place.port:
            address["server.port"] = place.port
    if place.scheme in _messaging_systems():
        return "CONSUMER" if is_source else "PRODUCER", address | {
            "messaging.system": place.scheme,
            "messaging.destination.name": dataset.name,
            "messaging.operation.type": "receive" if is_source else "send",
            "messaging.batch.message_count": rows,
        }
    if place.scheme in _DATABASES:
        return "CLIENT", address | {
            "db.system.name": _DATABASES[place.scheme],
            "db.collection.name": dataset.name,
            "db.response.returned_rows" if is_source else "db.operation.batch.size": rows,
        }
    return "INTERNAL", {}


def _commit(record: BatchMetrics, timing: BatchTiming, end: float) -> SpanTree:
    """The commit of the sinks by the driver, and then of the micro-batch by Spark."""
    if "commitOffsets" not in record.spark:
        return SpanTree("commit", timing.committing, end)
    parts = (
        SpanTree("sinks", timing.committing, timing.end),
        SpanTree("commitOffsets", max(timing.end, end - record.spark["commitOffsets"]), end),
    )
    return SpanTree("commit", timing.committing, end, children=parts)


def _total(record: BatchMetrics, operators: Sequence[OperatorInfo]) -> int:
    """Rows read by sources, or written by sinks."""
    return int(sum(record.operators.get(o.uid, {}).get("rows_in", 0) for o in operators))


def _short(value: float) -> Value:
    return int(value) if value == int(value) else round(value, 2)
