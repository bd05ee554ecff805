"""Projections that differ only in the names of their fields get the names of one of them.

Calcite's planners keep each relation once, and do not compare the names of its fields (``Project.deepEquals``). So the
projection that a planner met first gives its names to all others, and a plan has one operator for them. The names of
the calls of an aggregate count, so aggregates that give other names stay two.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field, fields, replace

from stateplan.common.lazy_dataclass import dataclass
from stateplan.planner.algebra.relations import Join, Project, Rel, Scan, replace_inputs, walk

_INPUTS = frozenset({"input", "left", "right", "sources"})


_PARTS: dict[type[Rel], tuple[str, ...]] = {}


def _parts(rel: Rel) -> tuple[str, ...]:
    """What ``rel`` is compared by, besides its inputs."""
    kind = type(rel)
    if kind not in _PARTS:
        names = {"names"} if kind in (Project, Join) else set()
        _PARTS[kind] = tuple(f.name for f in fields(kind) if f.compare and f.name not in _INPUTS | names)
    return _PARTS[kind]


@dataclass
class _Numbers:
    """A number for each relation, the same for those that differ only in names."""

    by_key: dict[Hashable, int] = field(default_factory=dict)
    by_identity: dict[int, tuple[Rel, int]] = field(default_factory=dict)
    unhashable: list[object] = field(default_factory=list)

    def of(self, rel: Rel) -> int:
        entry = self.by_identity.get(id(rel))
        if entry is None:
            parts = vars(rel)
            key = [type(rel), *(self._hashable(parts[part]) for part in _parts(rel))]
            key += [self.of(below) for below in rel.inputs]
            entry = self.by_identity[id(rel)] = rel, self.by_key.setdefault(tuple(key), len(self.by_key))
        return entry[1]

    def _hashable(self, value: object) -> Hashable:
        try:
            hash(value)
        except TypeError:
            if value not in self.unhashable:
                self.unhashable.append(value)
            return "unhashable", self.unhashable.index(value)
        return value


def share_names(rel: Rel, before: Rel) -> Rel:
    """``rel`` with the same names for all projections that differ only in them.

    Args:
        rel: the tree that a planner made of ``before``.
        before: what it has met already. Names that are there stay. Otherwise the first ones do: those of inputs before
            those of what reads them, from left to right.
    """
    if not _reads_twice(rel):
        return rel
    numbers = _Numbers()
    old = {(numbers.of(r), r.names) for r in walk(before) if isinstance(r, Project)}
    names: dict[int, tuple[str, ...]] = {}

    def meet(r: Rel) -> None:
        for below in r.inputs:
            meet(below)
        if isinstance(r, Project):
            number = numbers.of(r)
            first = names.setdefault(number, r.names)
            if (number, first) not in old and (number, r.names) in old:
                names[number] = r.names

    meet(rel)
    return _with_names(rel, numbers, names)


def _reads_twice(rel: Rel) -> bool:
    """Whether a table is read twice. Without that, no two relations are equal."""
    tables = [r.table.identifier for r in walk(rel) if isinstance(r, Scan)]
    return len(set(tables)) < len(tables)


def _with_names(rel: Rel, numbers: _Numbers, names: Mapping[int, tuple[str, ...]]) -> Rel:
    out = replace_inputs(rel, [_with_names(below, numbers, names) for below in rel.inputs])
    return replace(out, names=names[numbers.of(rel)]) if isinstance(out, Project) else out
