"""Whether an operator of OVER can continue from what another one has kept: with the same frame over the same rows, or
with a smaller one that counts rows.

A frame with a bound keeps its rows. So what calls keep is computed from these. A frame without a bound keeps only what
its calls need.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.node_text import agg_text
from stateplan.execnodes.nodes.over_aggregate import OverAggregate
from stateplan.execnodes.specs import AggCall
from stateplan.plans.derivation import CallSource, Outcome, StateMove
from stateplan.plans.meanings import Lineage
from stateplan.plans.sums import linear_form


@dataclass(frozen=True)
class Frames:
    """An operator of OVER in the order of time, with what it reads.

    Attributes:
        node: the operator.
        meaning: its lineage.
        rows: the lineage of its input.
        names: the names of its fields and constants.
        has_ttl: whether its state may have expired.
    """

    node: OverAggregate
    meaning: Lineage
    rows: Lineage
    names: Sequence[str]
    has_ttl: bool

    @property
    def calls(self) -> list[AggCall]:
        """All its calls."""
        return [call for group in self.node.over_spec.groups for call in group.agg_calls]

    @property
    def is_bounded(self) -> bool:
        """Whether it keeps the rows of its frame."""
        return all(group.lower_bound.kind == "BOUNDED_WINDOW" for group in self.node.over_spec.groups)

    @property
    def preceding(self) -> int | None:
        """How many rows before the current one the frame begins; None where that is not a constant."""
        return self.node.preceding(self.node.over_spec.groups[0])

    @property
    def kept_values(self) -> list[int]:
        """The arguments of DISTINCT calls whose values are kept in tables that are named after them."""
        return [] if self.is_bounded else sorted({c.arg_list[0] for c in self.calls if c.distinct and c.arg_list})

    def follows(self, number: int) -> bool:
        """Whether what a call keeps follows from the rows of the frame, whatever came before."""
        call = self.calls[number]
        if call.function in ("COUNT", "MIN", "MAX"):
            return True
        if call.function not in ("SUM", "$SUM0") or call.arg_list[0] >= len(self.rows.fields):
            return False
        form = linear_form(self.rows.fields[call.arg_list[0]], self.rows.meanings)
        return form is not None and (form.type.is_integer or form.never_overflows)


def compare_frames(old: Frames, new: Frames, fields: Outcome) -> Outcome | None:
    """What becomes of the state of an operator of OVER; None where its rows or its frame are others.

    Args:
        old, new: the operator before and now.
        fields: what becomes of the fields of its rows.
    """
    was, now = old.meaning.calls, new.meaning.calls
    is_smaller = old.meaning.state != new.meaning.state
    if is_smaller and (not new.meaning.groups or old.meaning.groups != new.meaning.groups):
        return None
    if fields[0] == "reset" or (was == now and not is_smaller):
        return fields
    if is_smaller and (None in (old.preceding, new.preceding) or (new.preceding or 0) > (old.preceding or 0)):
        return "reset", ["rows in front of the old frames were not kept"], None
    if is_smaller and (old.has_ttl or new.has_ttl):
        return "reset", ["rows of smaller frames expire otherwise"], None
    if old.kept_values != new.kept_values:
        return "reset", ["single values (DISTINCT) of frames without a bound cannot be moved"], None
    fresh = [i for i, call in enumerate(now) if is_smaller or call not in was]
    misses = [i for i in fresh if not new.is_bounded or not new.follows(i)]
    if misses:
        texts = ", ".join(agg_text(new.calls[i], new.names) for i in misses)
        return "reset", [f"{texts} would not have seen the earlier rows"], None
    move = fields[2] or StateMove((tuple(range(len(new.rows.fields))),))
    if not fresh:
        calls = tuple(CallSource(was.index(call)) for call in now)
        return (
            fields[0] if fields[0] == "derive" else "rewrite",
            fields[1] or ["its columns are reordered"],
            replace(move, calls=calls),
        )
    calls = tuple(
        CallSource(None, converts=True) if i in fresh else CallSource(was.index(c)) for i, c in enumerate(now)
    )
    reasons = ["the last rows of each frame are among those kept"] if is_smaller else []
    added_texts = [agg_text(new.calls[i], new.names) for i in fresh if not is_smaller]
    reasons += [f"{', '.join(added_texts)} follows from the rows of the frame"] if added_texts else []
    return "derive", [*fields[1], *reasons], replace(move, calls=calls, form="frames")
