"""The records that the driver keeps of micro-batches: figures, sizes of states, watermarks.

``counters`` brings the figures from the workers, ``log`` keeps the records in a checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from functools import cache
from typing import Annotated, Any, ClassVar

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, TypeAdapter
from pydantic.alias_generators import to_camel

from stateplan.common.lazy_dataclass import dataclass
from stateplan.runtime.metrics.ages import Ages, Histogram, add_ages
from stateplan.runtime.metrics.figures import Figures, add_all, add_figures, split_name
from stateplan.runtime.metrics.timing import BatchTiming

_GROWTH = ("state_rows", "state_bytes", "state_runs")


def _short(value: float) -> float:
    return int(value) if value == int(value) else round(value, 2)


def _shortened(operators: Figures) -> Figures:
    return {uid: {name: _short(n) for name, n in figures.items() if n} for uid, figures in operators.items()}


def _as_texts(ages: Ages) -> dict[str, dict[str, str]]:
    return {uid: {key: histogram.to_text() for key, histogram in of.items()} for uid, of in ages.items()}


def _of_texts(data: Any) -> Any:
    if not isinstance(data, dict):
        return data
    return {
        uid: {key: Histogram.from_text(h) if isinstance(h, str) else h for key, h in of.items()}
        for uid, of in data.items()
        if isinstance(of, dict)
    }


_CAMEL = ConfigDict(alias_generator=to_camel)
"""Keys of JSON are written in camel case."""


@dataclass
class StateSize:
    """The state of an operator after a micro-batch, per state entry of the plan.

    Attributes:
        rows: stored rows: those of all runs. Older versions, deletion marks and expired rows that no merge has removed
            yet count.
        bytes: of these runs.
        runs: how many they are.
        partial: what was there when the figures began is missing: the checkpoint had no figures of it.
    """

    rows: list[int] = field(default_factory=list)
    bytes: list[int] = field(default_factory=list)
    runs: list[int] = field(default_factory=list)
    partial: bool = False


@dataclass
class BatchMetrics:
    """One micro-batch, or in old records several successive ones together. JSON has no key of a default value.

    Attributes:
        batch: its id; of several, of the last.
        time: the clock of the micro-batch (the replay clock for replay tables), ms since 1970.
        started: when the driver began with it by the machine's clock, ms since 1970; of several, the first.
        ms: how long the driver took for it, from there to the commit of the sinks; of several, the sum.
        operators: figures by operator uid; see :data:`FIGURES`. A figure of 0 may be omitted.
        state: by operator uid, the size of its state.
        watermarks: by operator uid, where event time is in it, ms since 1970.
        spark: Spark's own phases, its ``durationMs``; empty if they are not known.
        batches: how many micro-batches the record stands for.
        slowest_ms: the longest of them.
        budgets: by the name of a limit of state, the share of it that is used.
        ages: by operator uid and ``<state>.<use>``, how old rows of state were when they were used.
        timing: when its parts ran, for traces. Not in JSON; None without traces.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CAMEL

    batch: int
    time: int
    started: int
    ms: Annotated[float, PlainSerializer(lambda ms: round(ms, 1))]
    operators: Annotated[Figures, PlainSerializer(_shortened)]
    state: dict[str, StateSize]
    watermarks: dict[str, int] = field(default_factory=dict)
    spark: dict[str, float] = field(default_factory=dict)
    batches: int = 1
    slowest_ms: float = 0.0
    budgets: dict[str, float] = field(default_factory=dict)
    ages: Annotated[Ages, PlainSerializer(_as_texts), BeforeValidator(_of_texts)] = field(default_factory=dict)
    timing: Annotated[BatchTiming | None, Field(exclude=True)] = None

    def __post_init__(self) -> None:
        self.slowest_ms = self.slowest_ms or self.ms

    def total(self, name: str) -> float:
        """A figure over all operators."""
        return sum(figures.get(name, 0) for figures in self.operators.values())

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data; what :meth:`from_json` reads."""
        left_out = {"slowest_ms"} if self.batches == 1 else None
        data: dict[str, Any] = _record().dump_python(self, by_alias=True, exclude_defaults=True, exclude=left_out)
        return data

    @staticmethod
    def from_json(data: Any) -> BatchMetrics:
        """Raises ValueError for data that is not a record."""
        return _record().validate_python(data)

    def followed_by(self, later: BatchMetrics) -> BatchMetrics:
        """One record for both: figures are summed, the rest is that of the later one."""
        spark = dict(self.spark)
        add_figures(spark, later.spark)
        return replace(
            later,
            started=self.started,
            ms=self.ms + later.ms,
            operators=add_all(add_all({}, self.operators), later.operators),
            watermarks={**self.watermarks, **later.watermarks},
            ages=add_ages(add_ages({}, self.ages), later.ages),
            spark=spark,
            batches=self.batches + later.batches,
            timing=None,
            slowest_ms=max(self.slowest_ms, later.slowest_ms),
        )


@cache
def _record() -> TypeAdapter[BatchMetrics]:
    return TypeAdapter(BatchMetrics)


class StateTotals:
    """Adds up by how much states grow.

    Args:
        states: per operator uid, how many state entries it has.
        base: what they were before; None for what nobody knows.
    """

    def __init__(self, states: Mapping[str, int], base: Mapping[str, StateSize] | None) -> None:
        self._sizes = {}
        for uid, count in states.items():
            base_size = None if base is None else base.get(uid, StateSize())
            old = base_size or StateSize(partial=True)
            rows, size, runs = ([*values, *([0] * (count - len(values)))] for values in (old.rows, old.bytes, old.runs))
            self._sizes[uid] = StateSize(rows, size, runs, old.partial)

    def keep(self, uids: Collection[str]) -> None:
        """From now on, these are all operators."""
        self._sizes = {uid: size for uid, size in self._sizes.items() if uid in uids}

    def take(self, operators: Figures) -> None:
        """Takes ``state_rows``, ``state_bytes`` and ``state_runs``, by which states grew, out of the figures of a
        micro-batch."""
        for uid, figures in operators.items():
            size = self._sizes.get(uid)
            for name in list(figures):
                kind, index = split_name(name)
                if kind not in _GROWTH:
                    continue
                growth = int(figures.pop(name))
                if index and size is not None:
                    sizes_by_name = {"state_rows": size.rows, "state_bytes": size.bytes, "state_runs": size.runs}[kind]
                    sizes_by_name[int(index[0])] += growth

    def sizes(self) -> dict[str, StateSize]:
        """The sizes of the states."""
        return {uid: StateSize(list(s.rows), list(s.bytes), list(s.runs), s.partial) for uid, s in self._sizes.items()}


@dataclass(frozen=True)
class OperatorInfo:
    """An operator that has figures.

    Attributes:
        uid: under which its figures are.
        id: the id of the plan node.
        kind: ``source``, ``operator`` or ``sink``.
        name: for people.
        states: names of its state entries, in the order of the plan.
        slot: the first of its slots of state; -1 without state.
        level: of an operator with state, how many shuffles are in front of it; else 0.
    """

    uid: str
    id: int
    kind: str
    name: str
    states: tuple[str, ...] = ()
    slot: int = -1
    level: int = 0


@dataclass(frozen=True)
class JobInfo:
    """A job, as its records of metrics name it.

    Attributes:
        job_id: Spark's id of the query.
        name: ``pipeline.name``, or the name of its sinks.
        started: when this run of the job began, ms since 1970.
        first_batch: the first micro-batch of this run.
        operators: sources, operators with state and sinks, in the order of the plan.
        parallelism: tasks that may run at the same time.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _CAMEL

    job_id: str
    name: str
    started: int
    first_batch: int
    operators: tuple[OperatorInfo, ...]
    parallelism: int = 1

    def to_text(self) -> str:
        """JSON; what :meth:`from_text` reads."""
        return str(_job().dump_json(self, by_alias=True, exclude_defaults=True, indent=1), "utf-8") + "\n"

    @staticmethod
    def from_text(text: str) -> JobInfo:
        """Raises ValueError for text that is not about a job."""
        return _job().validate_json(text)

    def same_state(self, other: JobInfo | None) -> Iterable[str]:
        """Uids of the operators that have the state which ``other`` had."""
        before = {o.uid: o.slot for o in other.operators} if other else {}
        return [o.uid for o in self.operators if o.slot >= 0 and before.get(o.uid) == o.slot]


@cache
def _job() -> TypeAdapter[JobInfo]:
    return TypeAdapter(JobInfo)
