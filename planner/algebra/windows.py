"""Windows of time in the relational algebra: window table functions, and aggregates by their windows.

Source: Flink's ``StreamPhysicalWindowTableFunction``, ``StreamPhysicalWindowAggregate``,
``StreamPhysicalLocalWindowAggregate`` and ``StreamPhysicalGlobalWindowAggregate``; ``WindowSpec``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from typing import Any, Literal

from stateplan.common.errors import Place
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import format_ttl
from stateplan.common.types import BIGINT, LogicalType
from stateplan.execnodes.emission import Emission
from stateplan.execnodes.specs import JoinType
from stateplan.execnodes.windows import (
    CumulativeWindow,
    HoppingWindow,
    SessionWindow,
    SliceAttached,
    TimeAttribute,
    TumblingWindow,
    WindowAttached,
)
from stateplan.functions.rex import Rex
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.phased import Accumulators, phased_calls
from stateplan.planner.algebra.relations import (
    AggCall,
    Field,
    JoinRelation,
    Order,
    Rel,
    Single,
    fresh_name,
    unique_names,
    with_rank,
)

Property = tuple[str, Literal["WindowStart", "WindowEnd", "Rowtime", "Proctime"]]
"""Name of a field, and what it says of the window."""

TIMESTAMP = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", nullable=False, precision=3)
PROCTIME = LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", precision=3, kind="PROCTIME")


@dataclass(frozen=True)
class TimeWindow:
    """Windows: ``size`` (the gap of SESSION), ``step`` (the slide of HOP, the step of CUMULATE, else 0) and ``offset``
    in ms; ``keys``, the fields of the input that SESSION is partitioned by."""

    kind: Literal["TUMBLE", "HOP", "CUMULATE", "SESSION"]
    size: int
    step: int = 0
    offset: int = 0
    keys: tuple[int, ...] = ()

    def text(self, position: str, names: Sequence[str]) -> str:
        """As descriptions show it.

        Args:
            position: how rows find their window.
            names: the names of the fields of the input.
        """
        if self.kind == "SESSION":
            keys = f", partition keys=[{', '.join(names[k] for k in self.keys)}]" if self.keys else ""
            return f"SESSION({position}, gap=[{_span(self.size)}]{keys})"
        parts = [position, f"{'max_size' if self.kind == 'CUMULATE' else 'size'}=[{_span(self.size)}]"]
        if self.kind != "TUMBLE":
            parts.append(f"{'slide' if self.kind == 'HOP' else 'step'}=[{_span(self.step)}]")
        if self.offset:
            parts.append(f"offset=[{_span(self.offset)}]")
        return f"{self.kind}({', '.join(parts)})"

    @property
    def spec(self) -> TumblingWindow | HoppingWindow | CumulativeWindow | SessionWindow:
        """As plans have it."""
        if self.kind == "SESSION":
            return SessionWindow(gap=self.size, partition_key_indices=self.keys)
        if self.kind == "TUMBLE":
            return TumblingWindow(size=self.size, offset=self.offset)
        if self.kind == "HOP":
            return HoppingWindow(size=self.size, slide=self.step, offset=self.offset)
        return CumulativeWindow(max_size=self.size, step=self.step, offset=self.offset)


def _span(millis: int) -> str:
    return ("-" if millis < 0 else "") + format_ttl(abs(millis))


@dataclass(frozen=True)
class WindowPosition:
    """How a row finds its window: by the time attribute ``time``, by ``start`` and ``end`` of a window that it is in,
    or, behind a local phase, by the end of its slice or window.

    ``time_type`` is the type of the time attribute that made the windows.
    """

    window: TimeWindow
    time_type: LogicalType
    time: int | None = None
    start: int | None = None
    end: int | None = None
    slice_end: int | None = None

    @property
    def is_rowtime(self) -> bool:
        return self.time_type.kind == "ROWTIME"

    def text(self, names: Sequence[str]) -> str:
        """As descriptions show it."""
        if self.time is not None:
            return self.window.text(f"time_col=[{names[self.time]}]", names)
        if self.slice_end is not None:
            return self.window.text(f"slice_end=[{names[self.slice_end]}]", names)
        assert self.end is not None
        start = "" if self.start is None else f"win_start=[{names[self.start]}], "
        return self.window.text(f"{start}win_end=[{names[self.end]}]", names)

    @property
    def windowing(self) -> TimeAttribute | WindowAttached | SliceAttached:
        """As plans have it."""
        arguments: dict[str, Any] = {
            "window": self.window.spec,
            "time_attribute_type": self.time_type,
            "is_rowtime": self.is_rowtime,
        }
        if self.time is not None:
            return TimeAttribute(**arguments, time_attribute_index=self.time)
        if self.slice_end is not None:
            return SliceAttached(**arguments, slice_end=self.slice_end)
        assert self.end is not None
        return WindowAttached(**arguments, window_start=-1 if self.start is None else self.start, window_end=self.end)


def window_fields(time_type: LogicalType) -> tuple[Field, ...]:
    """The fields that a window table function adds."""
    return (
        ("window_start", TIMESTAMP),
        ("window_end", TIMESTAMP),
        ("window_time", replace(time_type, nullable=False)),
    )


@dataclass(frozen=True)
class WindowTable(Single):
    """TUMBLE, HOP, CUMULATE or SESSION of a table: each row once for every window that its field ``time`` is in.

    ``names`` are those of its fields: the names that the input has when it is made, and has no more where a projection
    below that only renames is removed. ``lengths`` are the lengths as they are written, in the order of the call.
    ``types`` are those of the input where Flink's plans have others than it has.
    """

    window: TimeWindow
    time: int
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None
    names: tuple[str, ...] = ()
    lengths: tuple[Rex, ...] = field(default=(), compare=False, repr=False)
    types: tuple[LogicalType, ...] = ()

    def __post_init__(self) -> None:
        if not self.names:
            object.__setattr__(self, "names", tuple(unique_names([n for n, _ in self._all_fields])))

    @property
    def position(self) -> WindowPosition:
        return WindowPosition(self.window, self.input.fields[self.time][1], time=self.time)

    @property
    def fields(self) -> tuple[Field, ...]:
        return tuple((n, t) for n, (_, t) in zip(self.names, self._all_fields, strict=True))

    @property
    def _all_fields(self) -> list[Field]:
        fields = self.input.fields
        types = self.types or [t for _, t in fields]
        own = [(n, t) for (n, _), t in zip(fields, types, strict=True)]
        return [*own, *window_fields(fields[self.time][1])]


@dataclass(frozen=True)
class WindowAggregate(Single):
    """Groups by the fields ``group`` and the windows of ``position``; output is the group fields, the calls, and the
    ``properties`` of the window."""

    group: tuple[int, ...]
    calls: tuple[AggCall, ...]
    position: WindowPosition
    properties: tuple[Property, ...]
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None

    @property
    def fields(self) -> tuple[Field, ...]:
        base = [self.input.fields[g] for g in self.group]
        property_types = {"WindowStart": TIMESTAMP, "WindowEnd": TIMESTAMP}
        last = self.position.time_type.not_null()
        call_names = [c.name if c.name is not None else f"$f{len(base) + i}" for i, c in enumerate(self.calls)]
        names: list[str] = []
        for name in [*(n for n, _ in base), *call_names, *(n for n, _ in self.properties)]:
            names.append(fresh_name(name, names))
        types = [*(t for _, t in base), *(c.type for c in self.calls)]
        types += [property_types.get(kind, last) for _, kind in self.properties]
        return tuple(zip(names, types, strict=True))


@dataclass(frozen=True)
class GroupWindowAggregate(Single):
    """GROUP BY TUMBLE, HOP or SESSION of the field ``time``, and by the fields ``group``; output is the group fields,
    the calls, and with ``tells`` the properties of the window. ``emission`` is of windows that are emitted early or
    late.

    ``time_type`` is the type of the time attribute that the SQL names. An operator below, such as a join, may have made
    a plain timestamp of it. The windows close by watermarks all the same, as in Flink.

    ``clock`` is the name and the place that a processing time had below, when Flink made the windows. Its input may be
    without this field later, since the operator reads the clock itself. None for event time.
    """

    group: tuple[int, ...]
    calls: tuple[AggCall, ...]
    window: TimeWindow
    time: int
    time_type: LogicalType
    tells: bool
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None
    emission: Emission | None = None
    clock: tuple[str, int] | None = None

    @property
    def time_field(self) -> tuple[str, int]:
        """Name and place of the time attribute in the plan."""
        return self.clock or (self.input.fields[self.time][0], self.time)

    @property
    def properties(self) -> tuple[tuple[Property, LogicalType], ...]:
        """A property of the window, and its type."""
        return group_window_properties(self.time_type) if self.tells else ()

    @property
    def fields(self) -> tuple[Field, ...]:
        base = [self.input.fields[g] for g in self.group]
        call_names = [c.name if c.name is not None else f"$f{len(base) + i}" for i, c in enumerate(self.calls)]
        names = unique_names([*(n for n, _ in base), *call_names, *(name for (name, _), _ in self.properties)])
        types = [*(t for _, t in base), *(c.type for c in self.calls), *(t for _, t in self.properties)]
        return tuple(zip(names, types, strict=True))


def group_window_properties(time_type: LogicalType) -> tuple[tuple[Property, LogicalType], ...]:
    """What a GROUP BY may ask of its windows, in Flink's order (``WindowPropertiesRules``)."""
    properties: list[tuple[Property, LogicalType]] = [
        (("w$start", "WindowStart"), TIMESTAMP),
        (("w$end", "WindowEnd"), TIMESTAMP),
    ]
    if time_type.kind == "ROWTIME":
        properties.append((("w$rowtime", "Rowtime"), time_type.as_nullable()))
    return (*properties, (("w$proctime", "Proctime"), PROCTIME))


@dataclass(frozen=True)
class LocalWindowAggregate(Single):
    """Partial results of a micro-batch: group fields, accumulators, maps of distinct values, end of the slice."""

    group: tuple[int, ...]
    calls: tuple[AggCall, ...]
    position: WindowPosition
    retraction: bool

    @property
    def accumulators(self) -> Accumulators:
        """The accumulators; of hopping windows, and where rows are retracted, with their number (``AggregateUtil``)."""
        flags = [self.retraction] * len(self.calls)
        counts_rows = self.retraction or self.position.window.kind == "HOP"
        return phased_calls(self.calls, flags, self.retraction, self.input, counts_rows)

    @property
    def fields(self) -> tuple[Field, ...]:
        end = "$slice_end" if self.position.time is not None else "$window_end"
        return (*(self.input.fields[g] for g in self.group), *self.accumulators.fields, (end, BIGINT))


@dataclass(frozen=True)
class GlobalWindowAggregate(Single):
    """Merges partial results of ``original``; ``before`` is the row of the local phase's input."""

    original: WindowAggregate
    position: WindowPosition
    retraction: bool
    before: Rel

    @property
    def group(self) -> tuple[int, ...]:
        return tuple(range(len(self.original.group)))

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.original.fields


@dataclass(frozen=True)
class WindowDeduplicate(Single):
    """The first or the last row by the field ``order`` of each window and each value of the fields ``partition``."""

    partition: tuple[int, ...]
    order: int
    keeps_last: bool
    position: WindowPosition
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None


@dataclass(frozen=True)
class WindowRank(Single):
    """The rows ``start`` to ``end``, from 1, of each window and each value of the fields ``partition``.

    ``rank_name`` is as of :class:`Rank`. ``keyed_as_flink``: without the window, its keys are taken for keys
    of all its rows, which they are not.
    """

    partition: tuple[int, ...]
    order: Order
    start: int
    end: int
    rank_name: str | None
    position: WindowPosition
    place: Place | None = field(default=None, compare=False, repr=False)
    hint: InputHint | None = None
    keyed_as_flink: bool = False

    @property
    def fields(self) -> tuple[Field, ...]:
        return with_rank(self.input.fields, self.rank_name)


@dataclass(frozen=True)
class WindowJoin(JoinRelation):
    """A join of rows that are in the same window; ``condition``, over left ++ right, is what it asks besides."""

    condition: Rex
    join_type: JoinType
    left_position: WindowPosition
    right_position: WindowPosition
    place: Place | None = field(default=None, compare=False, repr=False)
    left_hint: InputHint | None = None
    right_hint: InputHint | None = None
