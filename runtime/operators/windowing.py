"""How the rows of windows are cut into slices and sessions."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.common.changelog import column
from stateplan.common.types import BIGINT, LogicalType, RowField
from stateplan.common.zone import local_time_zone
from stateplan.execnodes.nodes.base import ExecNode, not_supported
from stateplan.execnodes.windows import (
    CumulativeWindow,
    HoppingWindow,
    SessionWindow,
    SliceAttached,
    TimeAttribute,
    WindowAttached,
)
from stateplan.runtime.kernels.common.sessions import LocalTimeTransform, Sessions
from stateplan.runtime.kernels.window_slices import Slicing
from stateplan.runtime.operators.base import Options


def zone_of(node: ExecNode, windowing: TimeAttribute | WindowAttached | SliceAttached, session: Options) -> str:
    """The time zone of the windows of ``node``: that of the session for TIMESTAMP_LTZ."""
    if windowing.time_attribute_type.root != "TIMESTAMP_WITH_LOCAL_TIME_ZONE":
        return "UTC"
    return local_time_zone({**session, **(node.configuration or {})})


def slicing_of(
    node: ExecNode,
    windowing: TimeAttribute | WindowAttached | SliceAttached,
    session: Options,
    by_clock: bool = False,
) -> Slicing:
    """How the windows of ``node`` are cut into slices.

    Args:
        node: for its options and errors.
        windowing: the windowing of the node.
        session: options.
        by_clock: whether the node also works by processing time.

    Raises:
        PlanError: PLAN035, for windows that cannot be run.
    """
    window = windowing.window
    is_attached = isinstance(windowing, WindowAttached)
    if isinstance(window, SessionWindow) and not is_attached:
        raise not_supported(node, "a SESSION window")
    if not windowing.is_rowtime and not by_clock:
        raise not_supported(node, "a window of processing time without an aggregate")
    zone = zone_of(node, windowing, session)
    if isinstance(window, SessionWindow):
        return Slicing("SESSION", window.gap, window.gap, zone=zone, attached=True)
    if isinstance(window, HoppingWindow):
        return Slicing("HOP", window.size, window.slide, window.offset, zone, is_attached)
    if isinstance(window, CumulativeWindow):
        return Slicing("CUMULATE", window.max_size, window.step, window.offset, zone, is_attached)
    return Slicing("TUMBLE", window.size, window.size, window.offset, zone, is_attached)


def sessions_of(
    node: ExecNode,
    windowing: TimeAttribute | WindowAttached,
    window: SessionWindow,
    grouping: Sequence[int],
    key: Sequence[str],
    row: LogicalType,
    session: Options,
) -> tuple[Sessions, LocalTimeTransform, LogicalType]:
    """The sessions of ``node``, what gives rows their local time, and ROW of these.

    Args:
        node: for its options.
        windowing: the windowing of the node.
        window: of it.
        grouping: fields that are the key.
        key: columns of the state for them, and for the start of a session.
        row: type of the input.
        session: options.
    """
    zone, width = zone_of(node, windowing, session), len(row.fields)
    time_names, end = ["local_time"], None
    if isinstance(windowing, WindowAttached):
        time_names, end = ["local_time", "local_end"], column(width + 1)
        time_transform = LocalTimeTransform(windowing.window_start, width, zone, windowing.window_end)
    else:
        time_transform = LocalTimeTransform(
            windowing.time_attribute_index if windowing.is_rowtime else None, width, zone
        )
    sessions = Sessions(tuple(grouping), tuple(key[:-1]), key[-1], column(width), window.gap, zone, end)
    fields = (*row.fields, *(RowField(name, BIGINT.not_null()) for name in time_names))
    return sessions, time_transform, LogicalType("ROW", fields=fields)
