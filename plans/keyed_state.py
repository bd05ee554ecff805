"""Whether an operator that keeps rows by a key can continue from the rows that another one has kept: a deduplication, a
ranking or a normalization of the same rows, whose key is in another order, with a further condition, or with fewer rows
of each partition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import format_ttl
from stateplan.common.types import LogicalType
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.changelog_normalize import ChangelogNormalize
from stateplan.execnodes.nodes.deduplicate import Deduplicate
from stateplan.execnodes.nodes.rank import Rank
from stateplan.execnodes.ranking import ConstantRange, RetractStrategy, UpdateFastStrategy
from stateplan.functions.rex import Rex
from stateplan.plans.derivation import Outcome, StateMove, StoredFields, filters_over, left_out, over_stored
from stateplan.plans.meanings import Lineage
from stateplan.plans.verdicts import Verdict


@dataclass(frozen=True)
class KeyedInput:
    """An operator whose rows have a key, with what it reads.

    Attributes:
        node: the operator.
        meaning: its lineage.
        rows: the lineage of its input.
        types: the types of the fields of its input.
        names: of these.
        ttl: after how many milliseconds rows of its state may have expired; 0 for never.
        has_ttl: whether state of an operator in front of it may expire.
    """

    node: ExecNode
    meaning: Lineage
    rows: Lineage
    types: Sequence[LogicalType]
    names: Sequence[str]
    ttl: int
    has_ttl: bool

    @property
    def key(self) -> list[str]:
        """The hashes of the values of its key."""
        return [self.rows.meanings.values(self.rows.fields[i]) for i in lookup_key(self.node)]


def is_keyed(node: ExecNode) -> bool:
    """Whether the rules here are about an operator."""
    return isinstance(node, (Deduplicate, ChangelogNormalize, Rank))


def lookup_key(node: ExecNode) -> Sequence[int]:
    """The fields by which such an operator finds its rows."""
    if isinstance(node, Rank):
        return node.partition.fields
    assert isinstance(node, (Deduplicate, ChangelogNormalize))
    return node.unique_keys


def compare_keyed(old: KeyedInput, new: KeyedInput, move: StateMove) -> Outcome | None:
    """What becomes of the rows that an operator has kept; None where they are other rows.

    Args:
        old, new: the operator before and now.
        move: where its fields are.
    """
    if not new.meaning.groups or old.meaning.groups != new.meaning.groups or {*old.key} != {*new.key}:
        return None
    filters = _filters(old, new)
    if filters is None:
        return None
    reasons = ["its keys are reordered"] if old.key != new.key else []
    reasons += left_out(filters, old.names, "rows")
    end, reset_reason = _end(old, new)
    if reset_reason is not None:
        return "reset", [reset_reason], None
    form = move.form
    if reasons or any(move.exprs):
        form = "keys"
    if end is not None:
        form, reasons = "first", [*reasons, f"only the first {end} of each partition are kept"]
    verdict: Verdict = "identical" if form == "columns" else "derive"
    return verdict, reasons, None if form == "columns" else replace(move, form=form, filters=(filters,))


def _filters(old: KeyedInput, new: KeyedInput) -> tuple[Rex, ...] | None:
    """Conditions on the fields of the old input that rows of the state have to meet now; None where they cannot be
    told. Conditions in front of the operator may read the key, and those of a normalization all fields. A ranking that
    keeps all rows has all that meet a condition; but rows of equal order refresh each other."""
    stored_fields: Sequence[int] = lookup_key(old.node)
    if _keeps_all(old.node) and not old.ttl:
        stored_fields = range(len(old.types))
    if isinstance(new.node, Deduplicate) and new.node.output_insert_only and new.node.is_rowtime:
        stored_fields = ()  # what is late depends on the watermark, and that on all rows
    filters = filters_over(old.rows, new.rows, stored_fields, old.types)
    if filters is None or not old.meaning.row_conditions <= new.meaning.row_conditions:
        return None
    more = new.meaning.row_conditions - old.meaning.row_conditions
    own_filters = over_stored(more, StoredFields.of(old.rows, new.rows, range(len(old.types)), old.types))
    return None if own_filters is None else (*filters, *own_filters)


def _keeps_all(node: ExecNode) -> bool:
    """Whether an operator keeps all rows of its input that were not retracted."""
    return isinstance(node, Rank) and isinstance(node.rank_strategy, RetractStrategy)


def _end(old: KeyedInput, new: KeyedInput) -> tuple[int | None, str | None]:
    """How many rows of each partition are to be kept, None for as many as before; and why that cannot be told."""
    was, now = old.node, new.node
    if not isinstance(was, Rank) or not isinstance(now, Rank):
        return None, None
    if not isinstance(was.rank_range, ConstantRange) or not isinstance(now.rank_range, ConstantRange):
        return None, None
    before, end, ttl = was.rank_range.end, now.rank_range.end, old.ttl
    if _keeps_all(was):
        orders = [
            [(rows.meanings.values(rows.fields[f.index]), f.is_ascending, f.null_is_last) for f in node.order_by.fields]
            for rows, node in ((old.rows, was), (new.rows, now))
        ]
        same_order = orders[0] == orders[1]
        return None, None if same_order or not ttl else "rows of equal order have refreshed each other"
    by_number = [
        node.output_row_number or (node_range.start > 1)
        for node, node_range in ((was, was.rank_range), (now, now.rank_range))
    ]
    if by_number[1] and not by_number[0]:
        return None, "rows of equal order behind the last one were not kept"
    if end == before and by_number[0] == by_number[1]:
        return None, None
    if end > before:
        return None, f"rows behind the first {before} of each partition were not kept"
    if ttl:
        return None, f"which rows have expired after {format_ttl(ttl)} depends on the number of rows kept"
    if by_number[1]:
        return None, "with their numbers, rows behind the last one are kept if they are of equal order"
    if isinstance(now.rank_strategy, UpdateFastStrategy) and (end == 1 or old.has_ttl or new.has_ttl):
        return None, "updates may have moved rows of equal order"
    return end, None
