"""Whether an aggregate of windows can continue from the slices that another one has kept: of the same rows, by some of
its keys, with calls that follow from the old ones, and in windows that consist of its slices.

An aggregate drops a slice when the last window that contains it closes. From then on it also drops late rows of this
slice. So the old one must keep each slice for at least as long as the new one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import format_ttl
from stateplan.common.types import LogicalType
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.node_text import agg_text, field_names
from stateplan.execnodes.nodes.base import ExecNode, field_types
from stateplan.execnodes.nodes.exchange import Exchange
from stateplan.execnodes.nodes.window_aggregates import GlobalWindowAggregate, LocalWindowAggregate, WindowAggregate
from stateplan.execnodes.specs import AggCall
from stateplan.execnodes.windows import SessionWindow, TimeAttribute
from stateplan.plans.derivation import GroupCalls, Outcome, StateMove, call_source, is_simple, merges_exactly
from stateplan.plans.lineage import call_meaning
from stateplan.plans.meanings import Lineage

if TYPE_CHECKING:
    from stateplan.runtime.kernels.window_slices import Slicing

_MOST_SLICES = 100_000


@dataclass(frozen=True)
class WindowGroups:
    """An aggregate of windows of event time, with what it reads.

    Attributes:
        rows: the lineage of the rows that it adds up.
        row: their type.
        grouping: fields of them.
        agg_calls: over them.
        retracts: whether rows may be retracted.
        time: the hash of the field that is their time.
        slicing: the windows.
        ttl: after how many milliseconds slices may have expired; 0 for never.
        watermark: up to where event time has come, ms; None where that is not known.
    """

    rows: Lineage
    row: LogicalType
    grouping: Sequence[int]
    agg_calls: Sequence[AggCall]
    retracts: bool
    time: str
    slicing: Slicing
    ttl: int
    watermark: int | None

    @staticmethod
    def of(
        graph: ExecGraph, node: ExecNode, rows: Lineage, ttl: int, watermark: int | None = None
    ) -> WindowGroups | None:
        """
        Args:
            graph: the plan.
            node: of it.
            rows: the lineage of what :meth:`reader` reads.
            ttl: the TTL of its state.
            watermark: as :attr:`watermark`.

        Returns:
            None for windows of another kind.
        """
        from stateplan.runtime.operators.windowing import slicing_of  # the engine, for these states alone

        reader = WindowGroups.reader(graph, node)
        if reader is None or not isinstance(node, (GlobalWindowAggregate, WindowAggregate)):
            return None
        windowing = reader.windowing
        if not isinstance(windowing, TimeAttribute) or not windowing.is_rowtime:
            return None
        if isinstance(windowing.window, SessionWindow):
            return None
        (row,) = graph.input_types(reader)
        slicing, time = slicing_of(node, windowing, {}), rows.fields[windowing.time_attribute_index]
        return WindowGroups(
            rows, row, reader.grouping, node.agg_calls, bool(node.need_retraction), time, slicing, ttl, watermark
        )

    @staticmethod
    def reader(graph: ExecGraph, node: ExecNode) -> LocalWindowAggregate | WindowAggregate | None:
        """The operator that reads the rows: the local phase, or the aggregate itself in one phase."""
        if isinstance(node, WindowAggregate):
            return node
        (current,) = graph.inputs(node)
        if isinstance(current, Exchange):
            (current,) = graph.inputs(current)
        return current if isinstance(current, LocalWindowAggregate) else None

    @property
    def calls(self) -> GroupCalls:
        """What it keeps."""
        kinds = field_types(self.row)
        meanings = [call_meaning(call, self.rows, kinds, self.retracts) for call in self.agg_calls]
        return GroupCalls.of(self.agg_calls, self.retracts, self.row, self.rows, meanings)

    @property
    def keys(self) -> list[str]:
        """The hashes of its keys."""
        return [self.rows.fields[k] for k in self.grouping]

    def texts(self, calls: Sequence[AggCall]) -> str:
        """Calls in words."""
        return ", ".join(agg_text(call, field_names(self.row)) for call in calls)


def compare_windows(old: WindowGroups, new: WindowGroups) -> Outcome | None:
    """What becomes of the slices that an aggregate has kept; None where they are of other rows."""
    if (old.rows.rows, old.time, old.slicing.zone) != (new.rows.rows, new.time, new.slicing.zone):
        return None
    if old.retracts != new.retracts or not set(new.keys) <= set(old.keys):
        return None
    if not all(is_simple(call, side.retracts) for side in (old, new) for call in side.agg_calls):
        return None
    old_calls, new_calls = old.calls, new.calls
    sources = [call_source(c, form, old_calls) for c, form in zip(new_calls.calls, new_calls.forms, strict=True)]
    fresh = [call for call, source in zip(new.agg_calls, sources, strict=True) if source is None]
    if fresh:
        return "reset", [f"{new.texts(fresh)} would not have seen the earlier rows"], None
    same_slices = old.slicing.slice == new.slicing.slice
    merges = set(new.keys) != set(old.keys) or not same_slices
    is_always, instant = _missing_slices(old.slicing, new.slicing, old.watermark)
    reason = _obstacle(old, new, merges) or instant
    if reason is not None:
        return "reset", [reason], None
    reasons = ["its windows consist of slices that are kept"] if old.slicing != new.slicing else []
    reasons += ["its groups are merged into larger ones"] if merges and set(new.keys) != set(old.keys) else []
    places = tuple(old.keys.index(key) for key in new.keys)
    calls = tuple(s for s in sources if s is not None)
    move = StateMove((places,), calls, form="slices", watermark=None if is_always else old.watermark)
    return "derive", reasons or ["its columns follow from what is kept"], move


def _obstacle(old: WindowGroups, new: WindowGroups, merges: bool) -> str | None:
    """Why slices cannot be merged; None where they can, or need not be."""
    if not merges:
        return None
    if old.ttl:
        return f"slices that have expired after {format_ttl(old.ttl)} are missing in larger ones"
    if old.retracts:
        return "slices of rows that may be retracted cannot be merged"
    inexact = [call for call in new.agg_calls if not merges_exactly(call)]
    return f"{new.texts(inexact)} cannot be merged exactly from other slices" if inexact else None


_LACKS_SLICES = "its windows are open when slices that they contain have been dropped"


def _missing_slices(old: Slicing, new: Slicing, watermark: int | None) -> tuple[bool, str | None]:
    """Whether the old windows keep all slices of the new ones, whatever the watermark is; and why windows that are open
    at this watermark lack some, None where they lack none."""
    import numpy as np

    from stateplan.runtime.kernel import END_OF_TIME, NO_WATERMARK

    if new.slice % old.slice or (new.offset - old.offset) % old.slice:
        return False, "its windows do not consist of the slices that are kept"
    period = math.lcm(*(length for s in (old, new) for length in (s.size, s.step)))
    if period // old.slice > _MOST_SLICES:
        return False, "its windows and the old ones have too few beginnings in common"
    ends = old.offset + old.slice * np.arange(1, period // old.slice + 1)
    slices = new.slice_ends(ends - 1)
    if (old.between(ends) & ~new.between(slices)).any():
        return False, "its windows contain rows that were in no window"
    drop_times, needed_until = old.last_ends(ends), new.last_ends(slices)
    is_short = (drop_times < needed_until) & ~new.between(slices)
    if not is_short.any():
        return True, None
    gaps = (needed_until - drop_times)[is_short]
    if watermark is None or old.zone != "UTC" or gaps.max() >= period:
        return False, _LACKS_SLICES
    if watermark in (NO_WATERMARK, END_OF_TIME):
        return False, None
    is_missing = (watermark + 1 - drop_times[is_short]) % period < gaps
    return False, f"{_LACKS_SLICES}, as at the watermark {_time_text(watermark)}" if is_missing.any() else None


def _time_text(millis: int) -> str:
    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00")
