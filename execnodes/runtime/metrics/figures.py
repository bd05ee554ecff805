"""The figures of a micro-batch: what they are called, and the record that the driver keeps of every one.

This module needs no library. :mod:`execnodes.runtime.metrics.log` keeps records in a checkpoint,
:mod:`execnodes.runtime.metrics.counters` brings the figures from the workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

Figures = dict[str, dict[str, float]]
"""Operator uid -> name of a figure -> value."""

FIGURES: dict[str, str] = {
    "rows_in": "input rows; `rows_in.<input>.<kind>` by input (from 0) and row kind (`+I`, `-U`, `+U`, `-D`)",
    "rows_out": "output rows; `rows_out.<kind>` by row kind",
    "bytes_in": "bytes of Arrow blobs received through a shuffle",
    "bytes_out": "bytes of Arrow blobs sent to operators and sinks",
    "busy_ms": "task time in the operator, over all phases; concurrent tasks add up",
    "read_ms": "source: time to read and decode files",
    "decode_ms": "time to decode the blobs of the shuffle",
    "lookup_ms": "time to look up state, including reads from the state store",
    "kernel_ms": "time of the operator's computation",
    "write_ms": "time to write state: the new run, merges and the list of runs",
    "deliver_ms": "time of fused downstream filters and projections, splitting by key, and encoding",
    "sink_ms": "sink: time to format and write rows",
    "state_bytes_written": "bytes of runs written to the state store, including merges; the commit uploads them",
    "state_rows_merged": "rows read by merges",
    "expired_rows": "expired rows removed from state; `expired_rows.<state>` by state entry",
    "late_rows": "rows dropped because they were behind the watermark",
    "retractions_missed": "retractions whose row was not found, because it had expired",
    "cache_hits": "runs of state found in the cache of the worker",
    "cache_misses": "runs of state read from the state store",
    "cache_unwritten": "runs of state that could not be cached on local disk, because it is full or not writable",
}
"""The figures that are summed up over key groups, tasks and micro-batches: name to what it means."""

LATEST = frozenset({"watermark_ms", "now_ms"})
"""Figures of which the largest counts."""


_GROWTH = {"state_rows": "rows", "state_bytes": "bytes", "state_runs": "runs"}


def split_name(name: str) -> tuple[str, tuple[str, ...]]:
    """``rows_in.0.+I`` as ``("rows_in", ("0", "+I"))``."""
    first, *rest = name.split(".")
    return first, tuple(rest)


def add_figures(into: dict[str, float], more: Mapping[str, float]) -> None:
    """Adds ``more``, figure by figure."""
    for name, amount in more.items():
        if name in LATEST:
            into[name] = max(into.get(name, amount), amount)
        else:
            into[name] = into.get(name, 0) + amount


@dataclass
class StateSize:
    """The state of an operator after a micro-batch, per state entry of the plan.

    Attributes:
        rows: rows in all runs; older versions, deletion marks and expired rows that no merge has removed yet count.
        bytes: of these runs.
        runs: how many they are.
        partial: what was there when the figures began is missing: the checkpoint had no figures of it.
    """

    rows: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    partial: bool = False

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"rows": self.rows, "bytes": self.bytes, "runs": self.runs}
        return {**data, "partial": True} if self.partial else data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> StateSize:
        rows, size, runs = ([int(x) for x in data[name]] for name in ("rows", "bytes", "runs"))
        return StateSize(rows, size, runs, bool(data.get("partial", False)))


@dataclass
class BatchMetrics:
    """One micro-batch, or in old records several successive ones together.

    Attributes:
        batch: its id; of several, of the last.
        time: the clock of the micro-batch (the replay clock for replay tables), ms since 1970.
        started: when the driver began with it by the machine's clock, ms since 1970; of several, the first.
        ms: how long the driver took for it, from there to the commit of the sinks; of several, the sum.
        operators: figures by operator uid; see :data:`FIGURES`. A figure of 0 may be left out.
        state: by operator uid, what its state has come to.
        watermarks: by operator uid, where event time stands in it, ms since 1970.
        spark: Spark's own phases, its ``durationMs``; empty when they are not known.
        batches: how many micro-batches the record stands for.
        slowest_ms: the longest of them.
    """

    batch: int
    time: int
    started: int
    ms: float
    operators: Figures = field(default_factory=dict)
    state: dict[str, StateSize] = field(default_factory=dict)
    watermarks: dict[str, int] = field(default_factory=dict)
    spark: dict[str, float] = field(default_factory=dict)
    batches: int = 1
    slowest_ms: float = 0.0

    def __post_init__(self) -> None:
        self.slowest_ms = self.slowest_ms or self.ms

    def total(self, name: str) -> float:
        """A figure over all operators."""
        return sum(figures.get(name, 0) for figures in self.operators.values())

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data; what :meth:`from_json` reads."""
        data: dict[str, Any] = {
            "batch": self.batch,
            "time": self.time,
            "started": self.started,
            "ms": round(self.ms, 1),
            "operators": {
                uid: {name: _short(value) for name, value in figures.items() if value}
                for uid, figures in self.operators.items()
            },
            "state": {uid: size.to_json() for uid, size in self.state.items()},
        }
        if self.watermarks:
            data["watermarks"] = self.watermarks
        if self.batches > 1:
            data |= {"batches": self.batches, "slowestMs": round(self.slowest_ms, 1)}
        if self.spark:
            data["spark"] = self.spark
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> BatchMetrics:
        """Raises KeyError, TypeError, ValueError or AttributeError for data that is not a record."""
        return BatchMetrics(
            int(data["batch"]),
            int(data["time"]),
            int(data["started"]),
            float(data["ms"]),
            {uid: {name: float(v) for name, v in figures.items()} for uid, figures in data["operators"].items()},
            {uid: StateSize.from_json(size) for uid, size in data["state"].items()},
            {uid: int(at) for uid, at in data.get("watermarks", {}).items()},
            {name: float(v) for name, v in data.get("spark", {}).items()},
            int(data.get("batches", 1)),
            float(data.get("slowestMs", 0)),
        )

    def followed_by(self, later: BatchMetrics) -> BatchMetrics:
        """One record for both: figures are summed, the rest is that of the later one."""
        operators = {uid: dict(figures) for uid, figures in self.operators.items()}
        for uid, figures in later.operators.items():
            add_figures(operators.setdefault(uid, {}), figures)
        spark = dict(self.spark)
        add_figures(spark, later.spark)
        return BatchMetrics(
            later.batch,
            later.time,
            self.started,
            self.ms + later.ms,
            operators,
            later.state,
            {**self.watermarks, **later.watermarks},
            spark,
            self.batches + later.batches,
            max(self.slowest_ms, later.slowest_ms),
        )


def _short(value: float) -> float:
    return int(value) if value == int(value) else round(value, 2)


class StateTotals:
    """Adds up by how much states grow.

    Args:
        states: per operator uid, how many state entries it has.
        base: what they were before; None for what nobody knows.
    """

    def __init__(self, states: Mapping[str, int], base: Mapping[str, StateSize] | None) -> None:
        self._sizes = {}
        for uid, count in states.items():
            known = None if base is None else base.get(uid, StateSize())
            old = known or StateSize(partial=True)
            rows, size, runs = ([*values, *([0] * (count - len(values)))] for values in (old.rows, old.bytes, old.runs))
            self._sizes[uid] = StateSize(rows, size, runs, old.partial)

    def take(self, operators: Figures) -> None:
        """Takes ``state_rows``, ``state_bytes`` and ``state_runs``, by which states grew, out of the figures of a
        micro-batch."""
        for uid, figures in operators.items():
            size = self._sizes.get(uid)
            for name in list(figures):
                what, index = split_name(name)
                if what not in _GROWTH:
                    continue
                growth = int(figures.pop(name))
                if index and size is not None:
                    values: list[int] = getattr(size, _GROWTH[what])
                    values[int(index[0])] += growth

    def sizes(self) -> dict[str, StateSize]:
        """What the states have come to."""
        return {uid: StateSize(list(s.rows), list(s.bytes), list(s.runs), s.partial) for uid, s in self._sizes.items()}


@dataclass(frozen=True)
class OperatorInfo:
    """An operator that has figures.

    Attributes:
        uid: under which its figures are.
        id: of the plan node.
        kind: ``source``, ``operator`` or ``sink``.
        name: for people.
        states: names of its state entries, in the order of the plan.
        slot: the first of its slots of state; -1 without state.
    """

    uid: str
    id: int
    kind: str
    name: str
    states: tuple[str, ...] = ()
    slot: int = -1

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"uid": self.uid, "id": self.id, "kind": self.kind, "name": self.name}
        return {**data, "states": list(self.states), "slot": self.slot} if self.kind == "operator" else data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> OperatorInfo:
        return OperatorInfo(
            str(data["uid"]),
            int(data["id"]),
            str(data["kind"]),
            str(data["name"]),
            tuple(map(str, data.get("states", ()))),
            int(data.get("slot", -1)),
        )


@dataclass(frozen=True)
class JobInfo:
    """What records are about.

    Attributes:
        job_id: Spark's id of the query.
        name: ``pipeline.name``, or the name of its sinks.
        started: when this run of the job began, ms since 1970.
        first_batch: the first micro-batch of this run.
        operators: sources, operators with state and sinks, in the order of the plan.
        parallelism: tasks that may run at the same time.
    """

    job_id: str
    name: str
    started: int
    first_batch: int
    operators: tuple[OperatorInfo, ...]
    parallelism: int = 1

    def to_json(self) -> dict[str, Any]:
        return {
            "format": 1,
            "jobId": self.job_id,
            "name": self.name,
            "started": self.started,
            "firstBatch": self.first_batch,
            "parallelism": self.parallelism,
            "operators": [o.to_json() for o in self.operators],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> JobInfo:
        """Raises KeyError, TypeError, ValueError or AttributeError for data that is not about a job."""
        return JobInfo(
            str(data["jobId"]),
            str(data["name"]),
            int(data["started"]),
            int(data["firstBatch"]),
            tuple(OperatorInfo.from_json(o) for o in data["operators"]),
            int(data.get("parallelism", 1)),
        )

    def same_state(self, other: JobInfo | None) -> Iterable[str]:
        """Uids of the operators that have the state which ``other`` had."""
        before = {o.uid: o.slot for o in other.operators} if other else {}
        return [o.uid for o in self.operators if o.slot >= 0 and before.get(o.uid) == o.slot]
