"""The keys of joins: pairs of fields that a condition makes equal."""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.relations import MultiJoin
from stateplan.planner.expressions.normal import collapsed
from stateplan.planner.expressions.ops import and_, conjunctions, kind

_EQUALITIES = ("=", "IS NOT DISTINCT FROM")


def _equi_pair(term: Rex, width: int) -> tuple[int, int] | None:
    term = collapsed(term)
    if kind(term) not in _EQUALITIES:
        return None
    a, b = term.children
    if not isinstance(a, InputRef) or not isinstance(b, InputRef):
        return None
    low, high = sorted((a.index, b.index))
    return (low, high - width) if low < width <= high else None


def null_filters(condition: Rex, width: int) -> list[bool]:
    """For each equi-join key, whether NULL matches no row: true for ``=``, false for ``IS NOT DISTINCT FROM``."""
    terms = (collapsed(t) for t in conjunctions(condition))
    return [kind(t) == "=" for t in terms if _equi_pair(t, width) is not None]


def equi_keys(condition: Rex, width: int) -> list[tuple[int, int]]:
    """Pairs of fields (left, right) that a join's condition makes equal, in order."""
    return [p for t in conjunctions(condition) if (p := _equi_pair(t, width)) is not None]


def is_equi_key(term: Rex, width: int) -> bool:
    """Whether ``term`` makes a field of the left input equal to one of the right."""
    return _equi_pair(term, width) is not None


def without_equi_keys(condition: Rex, width: int) -> Rex:
    """The rest of a join's condition; TRUE for nothing."""
    return and_(t for t in conjunctions(condition) if not is_equi_key(t, width))


def equal_fields(rel: MultiJoin) -> list[list[tuple[int, int, int]]]:
    """Per source, (source, field, own field) of the pairs that its condition wants to be equal."""
    offsets = rel.offsets
    out: list[list[tuple[int, int, int]]] = [[]]
    for n, condition in enumerate(rel.conditions[1:], 1):
        pairs = []
        for term in conjunctions(condition):
            if kind(term) != "=" or not all(isinstance(c, InputRef) for c in term.children):
                continue
            low, high = sorted(c.index for c in term.children if isinstance(c, InputRef))
            if low < offsets[n] <= high:
                source = max(i for i in range(n) if offsets[i] <= low)
                pairs.append((source, low - offsets[source], high - offsets[n]))
        out.append(pairs)
    return out


def common_keys(rel: MultiJoin) -> list[tuple[int, ...]]:
    """Per source the fields of the key that all have in common; those of one place in them are equal to each other."""
    groups: list[list[tuple[int, int]]] = []
    for n, pairs in enumerate(equal_fields(rel)):
        for source, field, own in pairs:
            one, two = (source, field), (n, own)
            groups_of_pair = [g for g in groups if one in g or two in g]
            groups = [g for g in groups if g not in groups_of_pair]
            groups.append(list(dict.fromkeys([*(a for g in groups_of_pair for a in g), one, two])))
    size = _table_size(sum(map(len, groups)))
    complete = [g for g in groups if {n for n, _ in g} == set(range(len(rel.sources)))]
    keys_by_source = [[_field_of_source(g, n, size) for n in range(len(rel.sources))] for g in complete]
    keys_by_source.sort()
    return [tuple(fields[n] for fields in keys_by_source) for n in range(len(rel.sources))]


def _field_of_source(group: Sequence[tuple[int, int]], source: int, size: int) -> int:
    """Which field of ``source`` stands for the group: the one that a Java ``HashMap`` lists first, as Flink takes."""
    fields = [field for n, field in group if n == source]
    return min(fields, key=lambda field: ((31 * (31 + source) + field) % size, fields.index(field)))


def _table_size(entries: int) -> int:
    size = 16
    while entries > size * 3 // 4:
        size *= 2
    return size
