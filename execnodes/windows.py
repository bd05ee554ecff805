"""The parts of nodes that work by windows: how long windows are, and how a row finds its own.

Source: Flink's ``WindowSpec``, ``WindowingStrategy`` and ``NamedWindowProperty`` (their JSON serializers).
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema, model_validator

from stateplan.common.errors import PlanError
from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import ALWAYS, Flag, Index, PlanModel, Text, TypeField, custom_error, value_text

_PART = r"(?:([-+]?\d+){})?"
_DURATION = re.compile(rf"P{_PART.format('D')}(?:T{_PART.format('H')}{_PART.format('M')}(?:([-+]?\d+(?:\.\d+)?)S)?)?")


def parse_duration(text: str) -> int:
    """Milliseconds of a duration as Java writes it, such as ``PT1H30M`` or ``PT-1.5S``.

    Raises:
        PlanError: PLAN044.
    """
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise PlanError("PLAN044.duration", shown=f"{text!r:.60}")
    days, hours, minutes = (int(part or 0) for part in match.groups()[:3])
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + round(float(match[4] or 0) * 1000)


def format_duration(millis: int) -> str:
    """The duration as Java's ``Duration.toString``."""
    if not millis:
        return "PT0S"
    sign, rest = ("-" if millis < 0 else ""), abs(millis)
    hours, rest = divmod(rest, 3_600_000)
    minutes, rest = divmod(rest, 60_000)
    seconds, fraction = divmod(rest, 1000)
    text = "PT" + (f"{sign}{hours}H" if hours else "") + (f"{sign}{minutes}M" if minutes else "")
    if seconds or fraction:
        text += f"{sign}{seconds}" + (f".{fraction:03d}".rstrip("0") if fraction else "") + "S"
    return text


def _read_duration(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        if not isinstance(value, str):
            raise PlanError("PLAN044.duration", shown=value_text(value), expected='a text such as "PT5S"')
        return parse_duration(value)
    except PlanError as error:
        raise custom_error(error) from None


Duration = Annotated[
    int,
    PlainValidator(_read_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "title": "Duration"}),
]


class _Window(PlanModel):
    """What windows have in common: they begin ``offset`` ms after full multiples of their size since 1970."""

    def to_json(self) -> dict[str, Any]:
        fields = super().to_json()
        return {key: format_duration(v) if isinstance(v, int) else v for key, v in fields.items()}

    @model_validator(mode="after")
    def _positive(self) -> Self:
        for attribute, name, _, _ in self.layout():
            length = vars(self)[attribute]
            if attribute not in ("type", "offset") and length <= 0:
                raise custom_error(PlanError("PLAN044.window_size", name=name, size=length))
        return self


class TumblingWindow(_Window):
    """Windows of ``size`` ms, one behind the other."""

    type: Literal["TumblingWindow"] = "TumblingWindow"
    size: Duration
    offset: Duration = 0


class HoppingWindow(_Window):
    """Windows of ``size`` ms, one every ``slide`` ms."""

    type: Literal["HoppingWindow"] = "HoppingWindow"
    size: Duration
    slide: Duration
    offset: Duration = 0


class CumulativeWindow(_Window):
    """Windows that begin together every ``max_size`` ms and are each ``step`` ms longer than the one before."""

    type: Literal["CumulativeWindow"] = "CumulativeWindow"
    max_size: Duration
    step: Duration
    offset: Duration = 0

    @model_validator(mode="after")
    def _multiple(self) -> Self:
        if self.max_size % self.step:
            raise custom_error(PlanError("PLAN044.window_step", max_size=self.max_size, step=self.step))
        return self


class SessionWindow(PlanModel):
    """Windows that end when no row has arrived for ``gap`` ms."""

    type: Literal["SessionWindow"] = "SessionWindow"
    gap: Duration
    partition_key_indices: Annotated[tuple[Index, ...], Field(alias="partition_key_indices")] = ()

    def to_json(self) -> dict[str, Any]:
        keys = list(self.partition_key_indices)
        return {**super().to_json(), "gap": format_duration(self.gap), "partition_key_indices": keys}


WindowSpec = Annotated[TumblingWindow | HoppingWindow | CumulativeWindow | SessionWindow, Field(discriminator="type")]


class TimeAttribute(PlanModel):
    """The time of a row is a time attribute."""

    strategy: Annotated[Literal["TimeAttribute"], ALWAYS] = "TimeAttribute"
    window: WindowSpec
    time_attribute_type: TypeField
    time_attribute_index: Annotated[int, Field(strict=True), Ref()]
    is_rowtime: Flag


class WindowAttached(PlanModel):
    """A row says in which window it is; ``window_start`` is -1 behind a local phase."""

    strategy: Annotated[Literal["WindowAttached"], ALWAYS] = "WindowAttached"
    window: WindowSpec
    time_attribute_type: TypeField
    window_start: Annotated[int, Field(strict=True), Ref()]
    window_end: Annotated[Index, Ref()]
    is_rowtime: Flag


class SliceAttached(PlanModel):
    """A row, the partial result of a local phase, says in which slice it is."""

    strategy: Annotated[Literal["SliceAttached"], ALWAYS] = "SliceAttached"
    window: WindowSpec
    time_attribute_type: TypeField
    slice_end: Annotated[Index, Ref()]
    is_rowtime: Flag


Windowing = Annotated[TimeAttribute | WindowAttached | SliceAttached, Field(discriminator="strategy")]


class WindowReference(PlanModel):
    """The window that properties are of."""

    name: Text
    type: TypeField


class TimeField(PlanModel):
    """The time attribute that a window in GROUP BY is of."""

    field_name: Text
    field_index: Annotated[Index, Ref()]
    input_index: Index
    field_type: TypeField


def _read_length(value: Any) -> str | int:
    """A duration as it is written, or a number of rows. Raises PlanError PLAN044."""
    _read_duration(value)
    length: str | int = value
    return length


Length = Annotated[str | int, PlainValidator(_read_length), WithJsonSchema({"type": ["string", "integer"]})]


class _GroupWindow(PlanModel):
    """What windows in GROUP BY have in common."""

    @model_validator(mode="after")
    def _positive(self) -> Self:
        for name in ("size", "slide", "gap"):
            length = _read_duration(vars(self).get(name, 1))
            if length <= 0:
                raise custom_error(PlanError("PLAN044.window_size", name=name, size=length))
        return self


class TumblingGroupWindow(_GroupWindow):
    """``TUMBLE(time, size)``; of the Table API, also of this number of rows."""

    kind: Annotated[Literal["TUMBLING"], ALWAYS] = "TUMBLING"
    alias: WindowReference
    time_field: Annotated[TimeField, Ref()]
    is_time_window: Flag
    size: Length

    @property
    def spec(self) -> TumblingWindow | None:
        """The window; None for one of a number of rows."""
        return TumblingWindow(size=_read_duration(self.size)) if self.is_time_window else None


class SlidingGroupWindow(_GroupWindow):
    """``HOP(time, slide, size)``; of the Table API, also of this number of rows."""

    kind: Annotated[Literal["SLIDING"], ALWAYS] = "SLIDING"
    alias: WindowReference
    time_field: Annotated[TimeField, Ref()]
    is_time_window: Flag
    size: Length
    slide: Length

    @property
    def spec(self) -> HoppingWindow | None:
        """The window; None for one of a number of rows."""
        if not self.is_time_window:
            return None
        return HoppingWindow(size=_read_duration(self.size), slide=_read_duration(self.slide))


class SessionGroupWindow(_GroupWindow):
    """``SESSION(time, gap)``."""

    kind: Annotated[Literal["SESSION"], ALWAYS] = "SESSION"
    alias: WindowReference
    time_field: Annotated[TimeField, Ref()]
    gap: Length

    @property
    def spec(self) -> SessionWindow:
        """The window, without its keys."""
        return SessionWindow(gap=_read_duration(self.gap))


def window_length(window: WindowSpec) -> int:
    """The size of windows, ms; of SESSION the gap, after which it ends."""
    if isinstance(window, SessionWindow):
        return window.gap
    return window.max_size if isinstance(window, CumulativeWindow) else window.size


GroupWindow = Annotated[TumblingGroupWindow | SlidingGroupWindow | SessionGroupWindow, Field(discriminator="kind")]


def group_windowing(
    window: TumblingGroupWindow | SlidingGroupWindow | SessionGroupWindow, grouping: tuple[int, ...]
) -> TimeAttribute | None:
    """How rows find the windows of a GROUP BY; None for windows of a number of rows.

    Args:
        window: the window of the plan.
        grouping: fields of the key, by which sessions are separate.
    """
    spec, time = window.spec, window.time_field
    if spec is None:
        return None
    if isinstance(spec, SessionWindow):
        spec = spec.model_copy(update={"partition_key_indices": grouping})
    return TimeAttribute(
        window=spec,
        time_attribute_type=time.field_type,
        time_attribute_index=time.field_index,
        is_rowtime=time.field_type.kind == "ROWTIME",
    )


class WindowProperty(PlanModel):
    """The properties of a window: its first instant, the instant after its last, or its last as a time attribute."""

    kind: Literal["WindowStart", "WindowEnd", "Rowtime", "Proctime"]
    reference: WindowReference


class NamedWindowProperty(PlanModel):
    """A field of the output that is about the window."""

    name: Text
    property: WindowProperty


def property_type(window_property: NamedWindowProperty) -> LogicalType:
    """The type of the field that holds a window property."""
    if window_property.property.kind == "Rowtime":
        return window_property.property.reference.type.not_null()
    if window_property.property.kind == "Proctime":  # also beside a window by event time, whose type the reference has
        return LogicalType("TIMESTAMP_WITH_LOCAL_TIME_ZONE", nullable=False, precision=3, kind="PROCTIME")
    return LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", nullable=False, precision=3)


def window_text(window: TumblingWindow | HoppingWindow | CumulativeWindow | SessionWindow) -> str:
    """``windows of 5000 ms``, in words."""
    if isinstance(window, SessionWindow):
        return f"sessions that end after {window.gap} ms without rows"
    offset_text = f", {window.offset} ms after full ones" if window.offset else ""
    if isinstance(window, TumblingWindow):
        return f"windows of {window.size} ms{offset_text}"
    if isinstance(window, HoppingWindow):
        return f"windows of {window.size} ms every {window.slide} ms{offset_text}"
    return f"windows that grow by {window.step} ms up to {window.max_size} ms{offset_text}"
