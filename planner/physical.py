"""The physical plan with changelog modes: what each operator emits, and what it must emit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from stateplan.common.changelog import ChangelogMode, RowKind
from stateplan.common.lazy_dataclass import dataclass
from stateplan.execnodes.specs import ChangelogKind
from stateplan.planner.algebra.relations import Rank, Rel

Kinds: TypeAlias = frozenset[Literal["INSERT", "UPDATE", "DELETE"]]
UpdateKind: TypeAlias = Literal["NONE", "ONLY_UPDATE_AFTER", "BEFORE_AND_AFTER"]
DeleteKind: TypeAlias = Literal["NONE", "DELETE_BY_KEY", "FULL_DELETE"]


@dataclass(frozen=True)
class Physical:
    """An operator with its inputs and traits.

    Attributes:
        rel: the operator; its own inputs are those of ``inputs``, without traits.
        inputs: its inputs.
        kinds: the modifications it emits.
        update: how it emits updates.
        delete: how it emits deletions; with DELETE_BY_KEY only their keys are right.
    """

    rel: Rel
    inputs: tuple[Physical, ...]
    kinds: Kinds
    update: UpdateKind
    delete: DeleteKind = "NONE"

    @property
    def input(self) -> Physical:
        return self.inputs[0]

    @property
    def is_insert_only(self) -> bool:
        return self.kinds <= {"INSERT"}

    @property
    def generates_update_before(self) -> bool:
        return self.update == "BEFORE_AND_AFTER"

    def walk(self) -> Iterator[Physical]:
        yield self
        for i in self.inputs:
            yield from i.walk()


class Deduplicate(Rank):
    """A rank that the execution plan has a deduplication for. No relation is one: see :func:`execution_type`."""


def execution_type(node: Physical) -> type[Rel]:
    """What ``node`` is in the execution plan: itself, or of ranks perhaps a deduplication (Flink's
    ``RankUtil.canConvertToDeduplicate``)."""
    rel = node.rel
    if isinstance(rel, Rank) and rel.is_deduplication and node.input.is_insert_only and rel.is_by_time:
        return Deduplicate
    return type(rel)


def kinds_of(mode: ChangelogMode) -> Kinds:
    """The modifications of a changelog mode."""
    out: set[Literal["INSERT", "UPDATE", "DELETE"]] = set()
    for kind in mode:
        out.add("INSERT" if kind == RowKind.INSERT else "DELETE" if kind == RowKind.DELETE else "UPDATE")
    return frozenset(out)


def changelog_mode(node: Physical) -> tuple[ChangelogKind, ...]:
    """The row kinds a node emits, in the order of Flink's plans."""
    out: list[ChangelogKind] = ["INSERT"] if "INSERT" in node.kinds else []
    if "UPDATE" in node.kinds:
        if node.generates_update_before:
            out.append("UPDATE_BEFORE")
        out.append("UPDATE_AFTER")
    if "DELETE" in node.kinds:
        out.append("~DELETE" if node.delete == "DELETE_BY_KEY" else "DELETE")
    return tuple(out)
