"""TUMBLE, HOP and CUMULATE without an aggregate behind them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.node_text import joined_names, names_text
from stateplan.execnodes.nodes.base import ExecNode, Stateless, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.windows import (
    CumulativeWindow,
    HoppingWindow,
    SessionWindow,
    SliceAttached,
    TimeAttribute,
    WindowAttached,
    Windowing,
    window_text,
)
from stateplan.execnodes.zone import local_time_zone

if TYPE_CHECKING:
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
    if isinstance(window, SessionWindow):
        raise node.not_supported("a SESSION window")
    if not windowing.is_rowtime and not by_clock:
        raise node.not_supported("a window of processing time without an aggregate")
    zone = zone_of(node, windowing, session)
    attached = isinstance(windowing, WindowAttached)
    if isinstance(window, HoppingWindow):
        return Slicing("HOP", window.size, window.slide, window.offset, zone, attached)
    if isinstance(window, CumulativeWindow):
        return Slicing("CUMULATE", window.max_size, window.step, window.offset, zone, attached)
    return Slicing("TUMBLE", window.size, window.size, window.offset, zone, attached)


@exec_node("window-table-function")
class WindowTableFunction(ExecNode):
    """Emits each row once for every window that it is in, with start, end and last instant of the window.

    .. code-block:: sql

        INSERT INTO visits SELECT page, window_start
        FROM TABLE(TUMBLE(TABLE clicks, DESCRIPTOR(ts), INTERVAL '5' MINUTE))
    """

    windowing: Annotated[Windowing, Ref()]

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        last = self.windowing.time_attribute_type.not_null()
        return (*field_types(inputs[0]), _TIMESTAMP, _TIMESTAMP, last)

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateless:
        from stateplan.execnodes.runtime.kernels.window_slices import WindowTableFunctionTransform

        windowing = self.windowing
        if not isinstance(windowing, TimeAttribute):
            raise self.not_supported("a window function of rows that already are in windows")
        slicing = slicing_of(self, windowing, session)
        last = windowing.time_attribute_type.polars()
        width = len(inputs[0].fields)
        return Stateless((WindowTableFunctionTransform(slicing, windowing.time_attribute_index, width, last),))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        time = ""
        if isinstance(self.windowing, TimeAttribute):
            time = f" of {names_text([self.windowing.time_attribute_index], joined_names(inputs))}"
        return f"puts rows into {window_text(self.windowing.window)}{time}"
