"""Constant folding and simplification of projections, filters and joins, using what is known about the input.

Source: Calcite's ``ReduceExpressionsRule``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.execnodes.types import LogicalType
from stateplan.planner.algebra.relations import Filter, Join, Project, Rel
from stateplan.planner.expressions import fold
from stateplan.planner.expressions.cases import push_into_cases
from stateplan.planner.expressions.normal import equal, member
from stateplan.planner.expressions.ops import (
    FALSE,
    Over,
    call,
    is_always_false,
    is_always_true,
    is_deterministic,
    is_null_literal,
    kind,
    rewrite,
    shift,
    unwrap_cast,
    with_operands,
)
from stateplan.planner.expressions.sarg import NullAs
from stateplan.planner.expressions.simplify import simplify_preserving_type
from stateplan.planner.metadata.predicates import constant_map, predicates_of
from stateplan.planner.passes.build import empty, filtered

_CONSTANTS = ("PI", "E")
"""Functions without operands that always have the same value."""


class _Folder:
    """Replaces what is constant under the known constants by its value."""

    def __init__(self, constants: Sequence[tuple[Rex, Literal]], keep_types: bool) -> None:
        self.constants = constants
        self.keep_types = keep_types
        self.found: list[Rex] = []

    def _known(self, rex: Rex) -> Literal | None:
        return next((v for r, v in self.constants if equal(r, rex)), None)

    def _constant(self, rex: Rex) -> bool:
        """Whether ``rex`` depends on constants only."""
        if isinstance(rex, Literal):
            return True
        if isinstance(rex, InputRef):
            return self._known(rex) is not None
        if isinstance(rex, Over) or kind(rex) == "ROW" or (not rex.children and kind(rex) not in _CONSTANTS):
            return False
        return is_deterministic(rex) and all(self._constant(c) for c in rex.children)

    def _inlined(self, rex: Rex) -> Rex:
        if isinstance(rex, InputRef):
            return self._known(rex) or rex
        return with_operands(rex, [self._inlined(c) for c in rex.children]) if rex.children else rex

    def fold(self, rex: Rex) -> Rex:
        if isinstance(unwrap_cast(rex), Literal):
            return rex
        if self._constant(rex):
            value = fold.evaluate(self._inlined(rex))
            if value is not None:
                self.found.append(rex)
                return _typed(value, rex.type) if self.keep_types else value
        if isinstance(rex, Over):
            return rex
        return with_operands(rex, [self.fold(c) for c in rex.children]) if rex.children else rex

    def fold_windows(self, rex: Rex) -> Rex:
        """``rex`` with the partitions of its windows folded that were found outside of windows too: Calcite looks for
        constants there only, and puts them in everywhere."""

        def change(e: Rex) -> Rex | None:
            if not isinstance(e, Over):
                return None
            return replace(e, partition=tuple(self.fold(p) if member(p, found) else p for p in e.partition))

        found = list(self.found)
        return rewrite(rex, change) if found else rex


def _typed(value: Literal, target: LogicalType) -> Rex:
    if value.type == target:
        return value
    literal = fold.cast_literal(value, target)
    return literal if literal.type == target else call("CAST", (literal,), target)


def _reduced(exprs: Sequence[Rex], predicates: Sequence[Rex], unknown_as: NullAs, keep_types: bool) -> list[Rex] | None:
    folder = _Folder(constant_map(predicates), keep_types)
    folded = [folder.fold(push_into_cases(e)) for e in exprs]
    out = [simplify_preserving_type(folder.fold_windows(e), unknown_as, predicates) for e in folded]
    return None if all(a == b or (equal(a, b) and a.type == b.type) for a, b in zip(out, exprs, strict=True)) else out


def reduce_project(rel: Rel) -> Rel | None:
    if not isinstance(rel, Project):
        return None
    exprs = _reduced(rel.exprs, predicates_of(rel.input), "UNKNOWN", keep_types=True)
    return None if exprs is None else replace(rel, exprs=tuple(exprs))


def reduce_filter(rel: Rel) -> Rel | None:
    if not isinstance(rel, Filter):
        return None
    reduced = _reduced([rel.condition], predicates_of(rel.input), "FALSE", keep_types=False)
    condition = rel.condition if reduced is None else reduced[0]
    if is_always_true(condition):
        return rel.input
    if is_always_false(condition) or is_null_literal(condition):
        return empty(rel)
    if reduced is None:
        return None
    new = filtered(rel.input, [condition])
    return None if isinstance(new, Filter) and equal(new.condition, rel.condition) else new


def reduce_join(rel: Rel) -> Rel | None:
    if not isinstance(rel, Join) or rel.join_type == "ANTI":
        return None
    width = rel.left.width
    predicates = [*predicates_of(rel.left), *(shift(p, width) for p in predicates_of(rel.right))]
    reduced = _reduced([rel.condition], predicates, "FALSE", keep_types=False)
    if reduced is None:
        return None
    return replace(rel, condition=FALSE if is_null_literal(reduced[0]) else reduced[0])
