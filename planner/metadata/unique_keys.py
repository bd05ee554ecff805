"""Unique keys: sets of fields that no two rows share. Upsert keys: unique keys that survive the changes of a stream.

Source: Flink's ``FlinkRelMdUniqueKeys``, ``FlinkRelMdUpsertKeys`` and ``UpsertKeyUtil``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from stateplan.common.types import MAX_LENGTH, LogicalType
from stateplan.functions.rex import InputRef, Rex
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.phased import GlobalAggregate
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    Expand,
    Filter,
    Join,
    MiniBatchAssigner,
    MultiJoin,
    Project,
    Rank,
    Rel,
    Scan,
    Sink,
    Sort,
    Values,
    Window,
)
from stateplan.planner.algebra.table_functions import ProcessTable, is_python
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, TemporalJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import GroupWindowAggregate, WindowRank
from stateplan.planner.expressions.ops import kind
from stateplan.planner.expressions.simplify import lossless_cast

Keys: TypeAlias = frozenset[frozenset[int]]

_NONE: Keys = frozenset()


def unique_keys(rel: Rel) -> Keys:
    """The known unique keys of ``rel``; the empty key means at most one row."""
    return _keys(rel, upsert=False)


def upsert_keys(rel: Rel) -> Keys:
    """The keys by which the changes that ``rel`` emits are in order."""
    return _keys(rel, upsert=True)


def are_unique(rel: Rel, columns: frozenset[int]) -> bool:
    """Whether no two rows of ``rel`` share the values of ``columns`` (``FlinkRelMdColumnUniqueness``: of a join with
    columns of both sides, those of each side must be unique there)."""
    if isinstance(rel, WatermarkAssigner):
        return False
    if isinstance(rel, (Filter, Exchange)):
        return are_unique(rel.input, columns)
    if isinstance(rel, Window):
        return are_unique(rel.input, frozenset(c for c in columns if c < rel.input.width))
    if isinstance(rel, (Project, Calc)):
        below = frozenset(e.index for c in columns if isinstance(e := rel.exprs[c], InputRef))
        return bool(below) and are_unique(rel.input, below)
    if isinstance(rel, Values):
        rows = [tuple(row[c].value for c in sorted(columns)) for row in rel.tuples]
        return len(set(rows)) == len(rows)
    if isinstance(rel, (TemporalJoin, IntervalJoin)):
        rel = Join(rel.left, rel.right, rel.condition, rel.join_type)
    if isinstance(rel, Join):
        return _unique_in_join(rel, columns)
    return any(k <= columns for k in unique_keys(rel))


def _unique_in_join(join: Join, columns: frozenset[int]) -> bool:
    from stateplan.planner.algebra.join_keys import equi_keys

    width = join.left.width
    if join.join_type in ("SEMI", "ANTI"):
        return are_unique(join.left, columns)
    left = frozenset(c for c in columns if c < width)
    right = frozenset(c - width for c in columns if c >= width)
    pairs = equi_keys(join.condition, width)
    if left and right:
        return are_unique(join.left, left) and are_unique(join.right, right)
    if left:
        keys = frozenset(r for _, r in pairs)
        return join.join_type in ("INNER", "LEFT") and are_unique(join.left, left) and are_unique(join.right, keys)
    keys = frozenset(k for k, _ in pairs)
    return (
        bool(right)
        and join.join_type in ("INNER", "RIGHT")
        and are_unique(join.right, right)
        and are_unique(join.left, keys)
    )


_KEEPING = (
    Filter,
    Sink,
    ChangelogNormalize,
    DropUpdateBefore,
    MiniBatchAssigner,
    OverAggregate,
    WatermarkAssigner,
    Window,
)
"""Operators whose rows are those of their input."""


def _keys(rel: Rel, upsert: bool) -> Keys:
    if isinstance(rel, Scan):
        return _NONE if rel.key is None else frozenset({frozenset(rel.key)})
    if isinstance(rel, (Project, Calc)):
        return _through(rel.exprs, _keys(rel.input, upsert))
    if isinstance(rel, _KEEPING):
        return _keys(rel.input, upsert)
    if isinstance(rel, Exchange):
        keys = _keys(rel.input, upsert)
        return _containing(keys, frozenset(rel.keys), _immutable(rel.input)) if upsert else keys
    if isinstance(rel, Expand):
        return _of_expand(rel, upsert)
    if isinstance(rel, Aggregate) and upsert and is_python(rel):
        return _NONE
    if isinstance(rel, (Aggregate, GlobalAggregate)):
        return frozenset({frozenset(range(len(rel.group)))})
    if isinstance(rel, GroupWindowAggregate):
        return _of_group_windows(rel)
    if isinstance(rel, Rank):
        return _of_rank(rel, upsert)
    if isinstance(rel, WindowRank) and rel.keyed_as_flink:
        return _of_window_rank(rel)
    if isinstance(rel, Sort):
        keys = _keys(rel.input, upsert)
        return _containing(keys, frozenset(i for i, _, _ in rel.order)) if upsert else keys
    if isinstance(rel, (TemporalJoin, IntervalJoin)):
        rel = Join(rel.left, rel.right, rel.condition, rel.join_type)
    if isinstance(rel, ProcessTable):
        return frozenset({frozenset(rel.upsert_key)}) if upsert and rel.upsert_key else _NONE
    if isinstance(rel, Join):
        return _of_join(rel, upsert)
    if isinstance(rel, MultiJoin):
        return _of_multi_join(rel) if upsert else _NONE
    if isinstance(rel, LookupJoin) and any(k <= {f for f, _ in rel.keys} for k in unique_keys(rel.table)):
        return _keys(rel.input, upsert)
    return _NONE


def _of_group_windows(rel: GroupWindowAggregate) -> Keys:
    """A row is known by its group and any instant of its window."""
    group, first = frozenset(range(len(rel.group))), len(rel.group) + len(rel.calls)
    properties = enumerate(rel.properties, first)
    return frozenset(group | {i} for i, ((_, kind), _) in properties if kind != "Proctime")


def _of_rank(rank: Rank, upsert: bool) -> Keys:
    """One row of each partition is known by it, several by their numbers too."""
    partition = frozenset(rank.partition)
    if rank.is_deduplication:
        return frozenset({partition})
    keys = _keys(rank.input, upsert)
    if upsert:
        keys = _containing(keys, partition)
    return keys if rank.rank_name is None else keys | {partition | {rank.width - 1}}


def _of_window_rank(rank: WindowRank) -> Keys:
    """What Flink takes for keys of the rows of all windows."""
    partition = frozenset(rank.partition)
    if rank.rank_name is not None:
        return frozenset({partition | {rank.width - 1}})
    return frozenset({partition}) if rank.start == rank.end == 1 else _NONE


def _through(exprs: Sequence[Rex], keys: Keys) -> Keys:
    """Keys over the input, in all ways they come out of a projection."""
    field_map: dict[int, list[int]] = {}
    for i, e in enumerate(exprs):
        source = _source(e)
        if source is not None:
            field_map.setdefault(source, []).append(i)
    if not field_map:
        return _NONE
    out: set[frozenset[int]] = set()
    for key in keys:
        if not all(c in field_map for c in key):
            continue
        choices: list[frozenset[int]] = [frozenset()]
        for c in key:
            choices = [k | {p} for k in choices for p in field_map[c]]
        out.update(choices)
    return frozenset(out)


_LENGTHS = {
    "BOOLEAN": 5,
    "TINYINT": 4,
    "SMALLINT": 6,
    "INTEGER": 11,
    "BIGINT": 20,
    "FLOAT": 15,
    "DOUBLE": 24,
    "DATE": 10,
}
"""Characters of the longest text of a value."""


def _source(rex: Rex) -> int | None:
    """The field that ``rex`` is, or is without loss; None for anything else."""
    if isinstance(rex, InputRef):
        return rex.index
    if kind(rex) == "CAST" and isinstance(rex.children[0], InputRef):
        field = rex.children[0]
        return field.index if lossless_cast(rex) or _is_injective(field.type, rex.type) else None
    return None


def _is_injective(a: LogicalType, b: LogicalType) -> bool:
    """Whether a CAST between types of two kinds keeps values apart (``LogicalTypeCasts.supportsInjectiveCast``)."""
    if b.is_string and not a.is_string:
        longest = _text_length(a)
        return longest is not None and longest <= (b.length or 1)
    if a.is_timestamp and b.is_timestamp:
        return a.precision == b.precision
    if a.is_string and b.root == "VARBINARY":
        return b.length == MAX_LENGTH
    binary = a.root in ("BINARY", "VARBINARY") and b.root in (a.root, "VARBINARY")
    return (binary or a.root == b.root == "CHAR") and (a.length or 1) <= (b.length or 1)


def _text_length(t: LogicalType) -> int | None:
    """Characters of the longest text of a value; None if there is no limit that holds."""
    fraction = t.precision + 1 if t.precision else 0
    if t.is_timestamp:
        return 19 + fraction
    return 8 + fraction if t.root == "TIME_WITHOUT_TIME_ZONE" else _LENGTHS.get(t.root)


def _containing(keys: Keys, required_fields: frozenset[int], immutable: frozenset[int] = frozenset()) -> Keys:
    """The keys by which changes stay in order when rows are sent by ``required_fields``: those that hold it, or that
    columns which no update changes complete."""
    return frozenset(k for k in keys if required_fields <= k | immutable)


def _immutable(rel: Rel) -> frozenset[int]:
    """Columns that no update changes (``FlinkRelMdImmutableColumns``): those of primary keys."""
    immutable_fields: frozenset[int] = frozenset()
    if isinstance(rel, Scan):
        immutable_fields = frozenset(rel.key or ())
    elif isinstance(rel, (Project, Calc)):
        below = _immutable(rel.input)
        immutable_fields = frozenset(i for i, e in enumerate(rel.exprs) if isinstance(e, InputRef) and e.index in below)
    elif isinstance(
        rel, (Filter, Exchange, ChangelogNormalize, DropUpdateBefore, MiniBatchAssigner, WatermarkAssigner)
    ):
        immutable_fields = _immutable(rel.input)
    elif isinstance(rel, Join):
        if rel.join_type in ("INNER", "LEFT", "SEMI", "ANTI"):
            immutable_fields = _immutable(rel.left)
        if rel.join_type in ("INNER", "RIGHT"):
            immutable_fields |= frozenset(i + rel.left.width for i in _immutable(rel.right))
    return immutable_fields if immutable_fields and upsert_keys(rel) else frozenset()


def _of_expand(expand: Expand, upsert: bool) -> Keys:
    """A key of the input that every projection keeps, and which of them it was."""
    out = set()
    for key in _keys(expand.input, upsert):
        kept_keys = frozenset(
            i
            for i in range(expand.width)
            if all(isinstance(e := p[i], InputRef) and e.index in key for p in expand.projects)
        )
        if {e.index for i in kept_keys if isinstance(e := expand.projects[0][i], InputRef)} == key:
            out.add(kept_keys | {expand.id_field})
    return frozenset(out)


def _of_join(join: Join, upsert: bool) -> Keys:
    from stateplan.planner.algebra.join_keys import equi_keys

    width = join.left.width
    pairs = equi_keys(join.condition, width)
    left_set, right_set = frozenset(k for k, _ in pairs), frozenset(r for _, r in pairs)
    left, right = _keys(join.left, upsert), _keys(join.right, upsert)
    left_unique = bool(pairs) and any(k <= left_set for k in left)
    right_unique = bool(pairs) and any(k <= right_set for k in right)
    if upsert:
        left = _containing(left, left_set, _immutable(join.left))
        right = _containing(right, right_set, _immutable(join.right))
    if join.join_type in ("SEMI", "ANTI"):
        return left
    out = {lk | frozenset(r + width for r in rk) for lk in left for rk in right}
    if right_unique and join.join_type in ("INNER", "LEFT"):
        out |= left
    if left_unique and join.join_type in ("INNER", "RIGHT"):
        out |= {frozenset(r + width for r in k) for k in right}
    return frozenset(out)


def _of_multi_join(join: MultiJoin) -> Keys:
    """Upsert keys, as of its joins one after the other, where the changes are in order by the common key only. Flink
    knows no unique keys of it."""
    from stateplan.planner.algebra.join_keys import common_keys, equal_fields

    join_keys, pairs, offsets = common_keys(join), equal_fields(join), join.offsets
    out = _containing(upsert_keys(join.sources[0]), frozenset(join_keys[0]))
    for n, source in enumerate(join.sources[1:], 1):
        right = upsert_keys(source)
        equal_left = frozenset(offsets[i] + field for i, field, _ in pairs[n])
        equal_right = frozenset(own for _, _, own in pairs[n])
        left_unique = bool(pairs[n]) and any(k <= equal_left for k in out)
        right_unique = bool(pairs[n]) and any(k <= equal_right for k in right)
        right = _containing(right, frozenset(join_keys[n]))
        source_keys = frozenset(frozenset(c + offsets[n] for c in k) for k in right)
        joint_keys = {a | b for a in out for b in source_keys}
        if right_unique:
            joint_keys |= out
        if left_unique and join.join_types[n] == "INNER":
            joint_keys |= source_keys
        out = frozenset(joint_keys)
    return out


def join_input_keys(rel: Rel, keys: Iterable[int]) -> list[tuple[int, ...]]:
    """Upsert keys of the input of a join or a rank, which is shuffled by its keys ``keys``, smallest first."""
    if isinstance(rel, Exchange) and tuple(rel.keys) == tuple(keys):
        rel = rel.input
    return sorted_keys(upsert_keys(rel))


def sorted_keys(keys: Keys) -> list[tuple[int, ...]]:
    """The keys, smallest first."""
    return sorted((tuple(sorted(k)) for k in keys), key=lambda k: (len(k), k))


def first_key_of_set(keys: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The key that Flink's set has first: a ``HashSet`` of bit sets, in the order of their hashes."""
    slots = 16
    while len(keys) > slots * 3 // 4:
        slots *= 2

    def slot(key: tuple[int, ...]) -> int:
        bits, code = sum(1 << i for i in key), 1
        while bits:
            word = bits & (1 << 64) - 1
            code = (31 * code + (word ^ word >> 32)) & (1 << 32) - 1
            bits >>= 64
        return (code ^ code >> 16) & slots - 1

    return min(keys, key=lambda key: (slot(key), len(key), key))


def smallest_key(keys: Keys) -> tuple[int, ...] | None:
    """The shortest key, of several the one with the lowest fields; None for none (or only the empty one)."""
    return next(iter(sorted_keys(frozenset(k for k in keys if k))), None)
