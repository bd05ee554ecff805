"""Relations that differ only in the names of their fields get the names of one of them.

Calcite's planners keep each relation once, and do not compare the names of its fields: ``deepEquals`` of ``Project``,
``Filter``, ``Join`` and ``Aggregate`` does not, nor does ``equals`` of an ``AggregateCall``. So the relation that a
planner met first gives its names to all others, and a plan has one operator for them.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field, fields, replace

from stateplan.planner.algebra.relations import Aggregate, Join, Project, Rel, Scan, replace_inputs, walk

_INPUTS = frozenset({"input", "left", "right", "sources"})


_PARTS: dict[type[Rel], tuple[str, ...]] = {}


def _parts(rel: Rel) -> tuple[str, ...]:
    """What ``rel`` is compared by, besides its inputs."""
    kind = type(rel)
    if kind not in _PARTS:
        names = {"names"} if kind in (Project, Join) else {"calls"} if kind is Aggregate else set()
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
            if isinstance(rel, Aggregate):
                key.append(tuple(replace(call, name=None) for call in rel.calls))
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


def _names(rel: Rel) -> Hashable:
    """The names that ``rel`` gives to fields; None for a relation that passes on those of its input."""
    if isinstance(rel, Project):
        return rel.names
    return tuple(call.name for call in rel.calls) if isinstance(rel, Aggregate) else None


def share_names(rel: Rel, before: Rel) -> Rel:
    """``rel`` with one of the names for all relations that differ only in them: names that a planner met already where
    it made ``rel`` of ``before``, else those that are first, inputs before what reads them, from left to right."""
    if not _reads_twice(rel):
        return rel
    numbers = _Numbers()
    old = {(numbers.of(r), _names(r)) for r in walk(before) if _names(r) is not None}
    first: dict[int, Rel] = {}

    def meet(r: Rel) -> None:
        for below in r.inputs:
            meet(below)
        number = numbers.of(r)
        if _names(r) is not None:
            best = first.setdefault(number, r)
            if (number, _names(best)) not in old and (number, _names(r)) in old:
                first[number] = r

    meet(rel)
    return _with_names(rel, numbers, first)


def _reads_twice(rel: Rel) -> bool:
    """Whether a table is read twice. Without that, no two relations are equal."""
    tables = [r.table.identifier for r in walk(rel) if isinstance(r, Scan)]
    return len(set(tables)) < len(tables)


def _with_names(rel: Rel, numbers: _Numbers, first: dict[int, Rel]) -> Rel:
    model = first.get(numbers.of(rel))
    out = replace_inputs(rel, [_with_names(below, numbers, first) for below in rel.inputs])
    if isinstance(out, Project) and isinstance(model, Project) and out.names != model.names:
        return replace(out, names=model.names)
    if isinstance(out, Aggregate) and isinstance(model, Aggregate) and _names(out) != _names(model):
        return replace(out, calls=model.calls)
    return out
