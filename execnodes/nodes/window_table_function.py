"""TUMBLE, HOP, CUMULATE and SESSION without an aggregate behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from stateplan.execnodes.changelog import column, columns
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import ExecNode, Stateful, Stateless, TimeBoundNode, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.types import BIGINT, LogicalType, RowField
from stateplan.execnodes.windows import (
    CumulativeWindow,
    HoppingWindow,
    SessionWindow,
    SliceAttached,
    TimeAttribute,
    WindowAttached,
    Windowing,
    window_length,
    window_text,
)
from stateplan.execnodes.zone import local_time_zone

if TYPE_CHECKING:
    from stateplan.execnodes.runtime.kernels.common.sessions import LocalTimeTransform, Sessions
    from stateplan.execnodes.runtime.kernels.window_slices import Slicing

_TIMESTAMP = LogicalType("TIMESTAMP_WITHOUT_TIME_ZONE", nullable=False, precision=3)


def zone_of(
    node: ExecNode, windowing: TimeAttribute | WindowAttached | SliceAttached, session: Mapping[str, str]
) -> str:
    """The time zone of the windows of ``node``: that of the session for TIMESTAMP_LTZ."""
    if windowing.time_attribute_type.root != "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        return "UTC"
    return local_time_zone({**session, **(node.configuration or {})})


def slicing_of(
    node: ExecNode,
    windowing: TimeAttribute | WindowAttached | SliceAttached,
    session: Mapping[str, str],
    by_clock: bool = False,
) -> Slicing:
    """How the windows of ``node`` are cut into slices.

    Args:
        node: for its options and errors.
        windowing: of the node.
        session: options.
        by_clock: whether the node also works by processing time.

    Raises:
        PlanError: PLAN035, for windows that cannot be run.
    """
    from stateplan.execnodes.runtime.kernels.window_slices import Slicing

    window = windowing.window
    attached = isinstance(windowing, WindowAttached)
    if isinstance(window, SessionWindow) and not attached:
        raise node.not_supported("a SESSION window")
    if not windowing.is_rowtime and not by_clock:
        raise node.not_supported("a window of processing time without an aggregate")
    zone = zone_of(node, windowing, session)
    if isinstance(window, SessionWindow):
        return Slicing("SESSION", window.gap, window.gap, zone=zone, attached=True)
    if isinstance(window, HoppingWindow):
        return Slicing("HOP", window.size, window.slide, window.offset, zone, attached)
    if isinstance(window, CumulativeWindow):
        return Slicing("CUMULATE", window.max_size, window.step, window.offset, zone, attached)
    return Slicing("TUMBLE", window.size, window.size, window.offset, zone, attached)


def sessions_of(
    node: ExecNode,
    windowing: TimeAttribute | WindowAttached,
    window: SessionWindow,
    grouping: Sequence[int],
    key: Sequence[str],
    row: LogicalType,
    session: Mapping[str, str],
) -> tuple[Sessions, LocalTimeTransform, LogicalType]:
    """The sessions of ``node``, what gives rows their local time, and ROW of these.

    Args:
        node: for its options.
        windowing: of the node.
        window: of it.
        grouping: fields that are the key.
        key: columns of the state for them, and for the start of a session.
        row: type of the input.
        session: options.
    """
    from stateplan.execnodes.runtime.kernels.common.sessions import LocalTimeTransform, Sessions

    zone, width = zone_of(node, windowing, session), len(row.fields)
    added, end = ["local_time"], None
    if isinstance(windowing, WindowAttached):
        added, end = ["local_time", "local_end"], column(width + 1)
        timed = LocalTimeTransform(windowing.window_start, width, zone, windowing.window_end)
    else:
        timed = LocalTimeTransform(windowing.time_attribute_index if windowing.is_rowtime else None, width, zone)
    sessions = Sessions(tuple(grouping), tuple(key[:-1]), key[-1], column(width), window.gap, zone, end)
    fields = (*row.fields, *(RowField(name, BIGINT.not_null()) for name in added))
    return sessions, timed, LogicalType("ROW", fields=fields)


@exec_node("window-table-function", states=("sessionWindowState",))
class WindowTableFunction(TimeBoundNode):
    """Emits each row once for every window that it is in, with start, end and last instant of the window. Rows of
    SESSION windows wait in state until the watermark has come to the end of their session.

    .. code-block:: sql

        INSERT INTO visits SELECT page, window_start
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
    """

    windowing: Annotated[Windowing, Ref()]

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        last = self.windowing.time_attribute_type.not_null()
        return (*field_types(inputs[0]), _TIMESTAMP, _TIMESTAMP, last)

    @property
    def _session(self) -> SessionWindow | None:
        return self.windowing.window if isinstance(self.windowing.window, SessionWindow) else None

    @property
    def keeps_state(self) -> bool:
        return self._session is not None

    @property
    def state_names(self) -> tuple[str, ...]:
        return self.STATE_NAMES if self._session is not None else ()

    def retention(self, index: int) -> int:
        return window_length(self.windowing.window)

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateless | Stateful:
        from stateplan.execnodes.runtime.kernels.window_slices import WindowTableFunctionTransform

        windowing = self.windowing
        if not isinstance(windowing, TimeAttribute):
            raise self.not_supported("a window function of rows that already are in windows")
        if self._session is not None:
            return self._in_sessions(windowing, self._session, inputs[0], session)
        slicing = slicing_of(self, windowing, session)
        last = windowing.time_attribute_type.polars()
        width = len(inputs[0].fields)
        return Stateless((WindowTableFunctionTransform(slicing, windowing.time_attribute_index, width, last),))

    def _in_sessions(
        self, windowing: TimeAttribute, window: SessionWindow, row: LogicalType, session: Mapping[str, str]
    ) -> Stateful:
        from stateplan.execnodes.runtime.kernels.common.net import state_columns
        from stateplan.execnodes.runtime.kernels.session_rows import SessionRowsKernel

        keys = window.partition_key_indices
        sessions, timed, whole = sessions_of(self, windowing, window, keys, (*columns(keys), "@start"), row, session)
        kernel = SessionRowsKernel(sessions, windowing.is_rowtime, row, windowing.time_attribute_type.polars())
        return Stateful(kernel, (keys,), (timed,), (state_columns(whole),))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        time = ""
        if isinstance(self.windowing, TimeAttribute):
            time = f" of {names_text([self.windowing.time_attribute_index], joined_names(inputs))}"
        return f"puts rows into {window_text(self.windowing.window)}{time}"
