"""Which changes each operator emits, and whether updates need their old row.

Source: Flink's ``FlinkChangelogModeInferenceProgram``: modifications are inferred from the sources up, the kind of
updates, then that of deletions, is asked for from the sink down; where an operator cannot give what is asked, the next
best is tried. Normalization that nobody needs is left out (``ChangelogNormalizeRequirementResolver``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from stateplan.execnodes.changelog import INSERT_ONLY, UPSERT, ChangelogMode, RowKind
from stateplan.execnodes.connectors.registry import (
    sink_changelog_mode,
    sink_takes_key_deletes,
    source_changelog_mode,
    source_gives_key_deletes,
)
from stateplan.execnodes.errors import Place, SqlError
from stateplan.execnodes.settings import value
from stateplan.planner.algebra.join_keys import common_keys, equi_keys
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    Aggregate,
    Calc,
    ChangelogFunction,
    ChangelogNormalize,
    DropUpdateBefore,
    Exchange,
    Expand,
    FullSort,
    Join,
    Limit,
    MiniBatchAssigner,
    MultiJoin,
    Order,
    Rank,
    RankStrategy,
    Rel,
    Scan,
    Sink,
    SortLimit,
    TemporalSort,
    Union,
    Values,
    replace_inputs,
    walk,
)
from stateplan.planner.algebra.table_aggregates import TableAggregate
from stateplan.planner.algebra.table_functions import FunctionCorrelate
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, TemporalJoin, WatermarkAssigner
from stateplan.planner.algebra.windows import WindowAggregate, WindowJoin, WindowTable
from stateplan.planner.digest.operators import describe
from stateplan.planner.expressions.ops import input_refs
from stateplan.planner.metadata.monotonicity import monotonicity
from stateplan.planner.metadata.unique_keys import join_input_keys, upsert_keys
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind, kinds_of

_INSERT: Kinds = frozenset({"INSERT"})
_ALL: Kinds = frozenset({"INSERT", "UPDATE", "DELETE"})


def infer_changelog(sink: Sink, options: Mapping[str, str]) -> Physical:
    """The plan of ``sink`` with changelog modes.

    Raises:
        SqlError: SQL140, a sink that cannot take the changes of its query; SQL141, a primary key of the sink that is
            not the key of the changes, without a word on conflicts; SQL143, SQL144, an ON CONFLICT that cannot be.
    """
    below = _kinds(sink.input, bool(value(options, "table.exec.mini-batch.enabled")))
    accepted = kinds_of(sink_changelog_mode(sink.table.options))
    _check_accepted(below, accepted, sink)
    for wanted in _wanted(sink, below):
        updating = _update(below, wanted)
        if updating is None:
            continue
        deletes: tuple[DeleteKind, ...] = ("FULL_DELETE",)
        if sink_takes_key_deletes(sink.table.options):
            deletes = ("DELETE_BY_KEY", "FULL_DELETE")
        for kind in deletes:
            node = _deleting(updating, kind)
            if node is not None:
                return _sink(replace(sink, input=node.rel), node, options)
    raise AssertionError("no kind of updates and deletions fits")


# modifications


def _kinds(rel: Rel, mini_batch: bool) -> Physical:
    inputs = tuple(_kinds(i, mini_batch) for i in rel.inputs)
    return Physical(replace_inputs(rel, [i.rel for i in inputs]), inputs, _provided(rel, inputs, mini_batch), "NONE")


def _provided(rel: Rel, inputs: tuple[Physical, ...], mini_batch: bool) -> Kinds:
    if isinstance(rel, Scan):
        return kinds_of(source_changelog_mode(rel.table.options))
    if isinstance(rel, (Values, WindowAggregate)):
        return _INSERT
    if isinstance(rel, Aggregate):
        shrinks = bool(inputs[0].kinds & {"UPDATE", "DELETE"})
        return _ALL if shrinks else frozenset({"INSERT", "UPDATE"})
    if isinstance(rel, Rank):
        first_row_only = rel.is_deduplication and not rel.keeps_last and not mini_batch
        return _INSERT if first_row_only and inputs[0].is_insert_only else _ALL
    if isinstance(rel, Limit):
        return _INSERT if inputs[0].is_insert_only else _ALL
    if isinstance(rel, SortLimit):
        return _ALL
    if isinstance(rel, FullSort):
        return _INSERT
    if isinstance(rel, TemporalSort):
        if not inputs[0].is_insert_only:
            raise _not_consumed("ORDER BY a time attribute", inputs[0], _INSERT, rel.place)
        return _INSERT
    if isinstance(rel, OverAggregate):
        if not inputs[0].is_insert_only:
            raise _not_consumed("OVER", inputs[0], _INSERT, rel.place)
        return _INSERT
    if isinstance(rel, ChangelogFunction):
        if rel.name == "TO_CHANGELOG":
            return _INSERT
        if not inputs[0].is_insert_only:
            raise _not_consumed("FROM_CHANGELOG", inputs[0], _INSERT, rel.place)
        return _ALL
    if isinstance(rel, (ChangelogNormalize, TableAggregate)):
        return _ALL
    if isinstance(rel, Join) and rel.join_type not in ("INNER", "SEMI"):
        return _ALL
    if isinstance(rel, TemporalJoin):
        return inputs[0].kinds
    if isinstance(rel, WindowJoin):
        for i in inputs:
            if not i.is_insert_only:
                raise _not_consumed("a join within windows", i, _INSERT, rel.place)
        return _INSERT
    if isinstance(rel, IntervalJoin):
        for below in inputs:
            if not below.is_insert_only:
                raise _not_consumed("an interval join", below, _INSERT, rel.place, "tables that only add rows")
        return _INSERT
    if isinstance(rel, MultiJoin) and "LEFT" in rel.join_types:
        return _ALL
    if isinstance(rel, _PASSING):
        out: Kinds = frozenset()
        for i in inputs:
            out |= i.kinds
        return out
    raise AssertionError(f"no changelog mode for {type(rel).__name__}")


_PASSING = (
    Calc,
    DropUpdateBefore,
    Exchange,
    Expand,
    FunctionCorrelate,
    Join,
    LookupJoin,
    MiniBatchAssigner,
    MultiJoin,
    Union,
    WatermarkAssigner,
    WindowTable,
)


def _check_accepted(node: Physical, accepted: Kinds, sink: Sink) -> None:
    if node.kinds - accepted:
        summary = sink.table.identifier.summary
        raise _not_consumed(
            f"the table '{summary}'",
            node,
            accepted,
            sink.place,
            "a query that only adds rows, or a sink that takes updates, such as print or the format debezium-json",
        )


def _not_consumed(
    who: str,
    node: Physical,
    accepted: Kinds,
    place: Place | None,
    expected: str = "a query below that only adds rows",
) -> SqlError:
    extra = node.kinds - accepted
    culprit = node
    while isinstance(culprit.rel, _PASSING):
        below = next((i for i in culprit.inputs if i.kinds & extra), None)
        if below is None or isinstance(culprit.rel, (Join, MultiJoin)):
            break
        culprit = below
    words = " and ".join(w for k, w in (("UPDATE", "update"), ("DELETE", "delete")) if k in extra)
    return SqlError("SQL140", who=who, words=words, describe=describe(culprit), place=place, expected=expected)


# updates


def _wanted(sink: Sink, below: Physical) -> list[UpdateKind]:
    if "UPDATE" not in below.kinds:
        return ["NONE"]
    if RowKind.UPDATE_BEFORE in sink_changelog_mode(sink.table.options) or _key_differs(sink, below):
        return ["BEFORE_AND_AFTER"]
    return ["ONLY_UPDATE_AFTER", "BEFORE_AND_AFTER"]


def _asked(node: Physical, kind: UpdateKind) -> UpdateKind:
    """``kind`` where the node updates rows, else NONE."""
    return kind if "UPDATE" in node.kinds else "NONE"


def _rebuilt(node: Physical, inputs: Sequence[Physical | None], update: UpdateKind) -> Physical | None:
    known = [i for i in inputs if i is not None]
    if len(known) < len(inputs):
        return None
    return Physical(replace_inputs(node.rel, [i.rel for i in known]), tuple(known), node.kinds, update)


def _update(node: Physical, required: UpdateKind) -> Physical | None:
    """``node`` emitting updates as ``required``, or None where it cannot."""
    return _VISITORS[type(node.rel)](node, _asked(node, required))


def _scan(node: Physical, required: UpdateKind) -> Physical | None:
    scan = node.rel
    assert isinstance(scan, Scan)
    if required == "NONE":
        return replace(node, update=required)
    old_rows = RowKind.UPDATE_BEFORE in source_changelog_mode(scan.table.options)
    if not old_rows:
        return replace(node, update=required) if required == "ONLY_UPDATE_AFTER" else None
    whole = replace(node, update="BEFORE_AND_AFTER")
    if required == "BEFORE_AND_AFTER":
        return whole
    return Physical(DropUpdateBefore(scan), (whole,), node.kinds, required)


def _drop(node: Physical, required: UpdateKind) -> Physical | None:
    if required == "BEFORE_AND_AFTER":
        return None
    return _rebuilt(node, [_update(node.input, "BEFORE_AND_AFTER")], required)


def _normalize(node: Physical, required: UpdateKind) -> Physical | None:
    return _rebuilt(node, [_update(node.input, "ONLY_UPDATE_AFTER")], required)


def _changelog_function(node: Physical, required: UpdateKind) -> Physical | None:
    if required == "ONLY_UPDATE_AFTER":
        return None
    return _rebuilt(node, [_update(node.input, "BEFORE_AND_AFTER")], required)


def _aggregate(node: Physical, required: UpdateKind) -> Physical | None:
    return _rebuilt(node, [_update(node.input, "BEFORE_AND_AFTER")], required)


def _rank(node: Physical, required: UpdateKind) -> Physical | None:
    """A rank in the first way that its input allows (``RankProcessStrategy.analyzeRankProcessStrategies``)."""
    rank = node.rel
    assert isinstance(rank, (Rank, SortLimit))
    partition = rank.partition if isinstance(rank, Rank) else ()
    for strategy in _strategies(node, partition, rank.order):
        made = _rebuilt(
            replace(node, rel=replace(rank, strategy=strategy)), [_update(node.input, _NEEDED[strategy.name])], required
        )
        if made is not None:
            return made
    return None


_NEEDED: dict[str, UpdateKind] = {
    "AppendFast": "NONE",
    "UpdateFast": "ONLY_UPDATE_AFTER",
    "Retract": "BEFORE_AND_AFTER",
}


def _strategies(node: Physical, partition: tuple[int, ...], order: Order) -> list[RankStrategy]:
    if node.input.is_insert_only:
        return [RankStrategy("AppendFast")]
    below = node.rel.inputs[0]
    keys = join_input_keys(below, partition)
    known = monotonicity(below)
    up = {True: "DECREASING", False: "INCREASING"}
    if (
        any(set(partition) <= set(k) for k in keys)
        and known is not None
        and order
        and all(known[i] in ("CONSTANT", up[ascending]) for i, ascending, _ in order)
    ):
        return [RankStrategy("UpdateFast", keys[0]), RankStrategy("Retract")]
    return [RankStrategy("Retract")]


def _limit(node: Physical, required: UpdateKind) -> Physical | None:
    return _rebuilt(node, [_update(node.input, "BEFORE_AND_AFTER")], required)


def _join(node: Physical, required: UpdateKind) -> Physical | None:
    join = node.rel
    assert isinstance(join, (Join, MultiJoin))
    inputs: list[Physical | None] = []
    for child, in_key in zip(node.inputs, _keys_in_join_key(join), strict=True):
        if required == "ONLY_UPDATE_AFTER":
            if "UPDATE" in child.kinds and not in_key:
                return None
            inputs.append(_update(child, "ONLY_UPDATE_AFTER"))
        else:
            inputs.append(_update(child, "BEFORE_AND_AFTER"))
    return _rebuilt(node, inputs, required)


def _temporal_join(node: Physical, required: UpdateKind) -> Physical | None:
    left, right = node.inputs
    versions = _update(right, "ONLY_UPDATE_AFTER") or _update(right, "BEFORE_AND_AFTER")
    return _rebuilt(node, [_update(left, required), versions], required)


def _keys_in_join_key(join: Join | MultiJoin) -> list[bool]:
    """Per input, whether it has an upsert key that contains the join key."""
    if isinstance(join, MultiJoin):
        keys_of = [list(keys) for keys in common_keys(join)]
    else:
        pairs = equi_keys(join.condition, join.left.width)
        keys_of = [[p[side] for p in pairs] for side in (0, 1)]
    out = []
    for rel, keys in zip(join.inputs, keys_of, strict=True):
        out.append(any(frozenset(keys) <= frozenset(k) for k in join_input_keys(rel, keys)))
    return out


def _calc(node: Physical, required: UpdateKind) -> Physical | None:
    calc = node.rel
    assert isinstance(calc, Calc)
    if required == "ONLY_UPDATE_AFTER" and not _keeps_key(calc):
        return None
    return _rebuilt(node, [_update(node.input, required)], required)


def _keeps_key(calc: Calc) -> bool:
    """Whether all changes of one key meet the condition, or none."""
    used = frozenset(input_refs(calc.condition)) if calc.condition is not None else frozenset()
    return calc.condition is None or any(used <= k for k in upsert_keys(calc.input))


def _passed(node: Physical, required: UpdateKind) -> Physical | None:
    return _rebuilt(node, [_update(i, required) for i in node.inputs], required)


_VISITORS: dict[type[Rel], Callable[[Physical, UpdateKind], Physical | None]] = {
    Scan: _scan,
    Values: lambda node, required: replace(node, update=required) if required == "NONE" else None,
    Aggregate: _aggregate,
    TableAggregate: _aggregate,
    ChangelogFunction: _changelog_function,
    Rank: _rank,
    Limit: _limit,
    SortLimit: _rank,
    FullSort: _limit,
    TemporalSort: _passed,
    OverAggregate: _passed,
    Join: _join,
    MultiJoin: _join,
    TemporalJoin: _temporal_join,
    IntervalJoin: _passed,
    LookupJoin: _passed,
    Calc: _calc,
    Exchange: _passed,
    Expand: _passed,
    FunctionCorrelate: _passed,
    MiniBatchAssigner: _passed,
    Union: _passed,
    WatermarkAssigner: _passed,
    ChangelogNormalize: _normalize,
    DropUpdateBefore: _drop,
    WindowAggregate: _aggregate,
    WindowJoin: _passed,
    WindowTable: _passed,
}


# deletions


def _deleting(node: Physical, required: DeleteKind) -> Physical | None:
    """``node`` emitting deletions exactly as ``required``, or none at all; None where it cannot."""
    made = _delete(node, required)
    return made if made is not None and made.delete in (required, "NONE") else None


def _delete(node: Physical, required: DeleteKind) -> Physical | None:
    """``node`` emitting deletions, as ``required`` where it has a choice; None where that cannot be."""
    rel = node.rel
    if isinstance(rel, Scan):
        kind: DeleteKind = "DELETE_BY_KEY" if source_gives_key_deletes(rel.table.options) else "FULL_DELETE"
        return replace(node, delete=kind if "DELETE" in node.kinds else "NONE")
    if isinstance(rel, Values):
        return node
    if isinstance(rel, ChangelogNormalize):
        return _delete_normalized(node, rel, required)
    if isinstance(rel, Calc) and required == "DELETE_BY_KEY" and not _keeps_key(rel):
        return None
    if isinstance(rel, Union):
        return _with_inputs(node, [_delete(i, required) for i in node.inputs], required)
    if isinstance(rel, LookupJoin):
        return _with_inputs(node, [_deleting(node.input, "FULL_DELETE")], "FULL_DELETE")
    if isinstance(rel, TemporalJoin):
        left, right = node.inputs
        versions = _deleting(right, "DELETE_BY_KEY") or _deleting(right, "FULL_DELETE")
        return _with_inputs(node, [_deleting(left, required), versions], required)
    if isinstance(rel, (Join, MultiJoin)):
        sides = [
            _deleting(child, "DELETE_BY_KEY" if required == "DELETE_BY_KEY" and in_key else "FULL_DELETE")
            for child, in_key in zip(node.inputs, _keys_in_join_key(rel), strict=True)
        ]
        by_key = any(s is not None and s.delete == "DELETE_BY_KEY" for s in sides)
        return _with_inputs(node, sides, "DELETE_BY_KEY" if by_key else "FULL_DELETE")
    if isinstance(rel, (Calc, Exchange, FunctionCorrelate, DropUpdateBefore, WatermarkAssigner)):
        return _with_inputs(node, [_deleting(node.input, required)], required)
    return _with_inputs(node, [_deleting(i, "FULL_DELETE") for i in node.inputs], "FULL_DELETE")


def _delete_normalized(node: Physical, rel: ChangelogNormalize, required: DeleteKind) -> Physical | None:
    """The normalization; where it is not needed, what is below its exchange."""
    if not rel.required and rel.condition is None and not node.generates_update_before:
        below = _deleting(node.input, required)
        if below is not None:
            return below.input if isinstance(below.rel, Exchange) else below
    kinds: tuple[DeleteKind, ...] = ("DELETE_BY_KEY", "FULL_DELETE")
    inputs = [i for i in (_deleting(node.input, kind) for kind in kinds) if i is not None]
    return _with_inputs(node, inputs[:1], "FULL_DELETE")


def _with_inputs(node: Physical, inputs: Sequence[Physical | None], delete: DeleteKind) -> Physical | None:
    made = _rebuilt(node, inputs, node.update)
    return None if made is None else replace(made, delete=delete if "DELETE" in node.kinds else "NONE")


# the sink


def _primary_key(sink: Sink) -> frozenset[int]:
    columns = [c.name for c in sink.table.schema.persisted]
    return frozenset(columns.index(n) for n in sink.table.schema.primary_key)


def _key_differs(sink: Sink, below: Physical) -> bool:
    """Whether the sink has a primary key that is not an upsert key of the changes. Where it is more than one, an update
    may move a row to another place, and only its old row says from where."""
    key = _primary_key(sink)
    return bool(key) and not below.is_insert_only and frozenset(key) not in map(frozenset, upsert_keys(below.rel))


def _no_key_within(key: frozenset[int], below: Physical) -> bool:
    return not any(k <= key for k in upsert_keys(below.rel))


def _sink(sink: Sink, below: Physical, options: Mapping[str, str]) -> Physical:
    """The sink, with the state it needs (``StreamPhysicalSink``, ``FlinkChangelogModeInferenceProgram``)."""
    asked = INSERT_ONLY if below.is_insert_only else UPSERT
    mode = sink_changelog_mode(sink.table.options, asked)
    if sink.conflict is not None:
        _check_conflict(sink, mode)
    choice = value(options, "table.exec.sink.upsert-materialize")
    key = _primary_key(sink)
    retracts = RowKind.UPDATE_BEFORE in mode
    materialize = False
    if choice == "FORCE":
        materialize = bool(key) and not retracts
    elif choice == "AUTO" and key and not retracts and mode != INSERT_ONLY and _no_key_within(key, below):
        if sink.conflict is None and value(options, "table.exec.sink.require-on-conflict"):
            raise _undecided(sink)
        materialize = sink.conflict != "DEDUPLICATE" or not below.is_insert_only
    sink = replace(sink, materialize=materialize)
    return Physical(sink, (below,), below.kinds, below.update, below.delete)


def _undecided(sink: Sink) -> SqlError:
    names = [n for n, _ in sink.input.fields]
    keys = sorted(sorted(k) for k in upsert_keys(sink.input))
    shown = "none" if not keys else ", ".join(names[i] for i in keys[0])
    primary = ", ".join(sink.table.schema.primary_key)
    return SqlError("SQL141", summary=sink.table.identifier.summary, primary=primary, shown=shown, place=sink.place)


def _check_conflict(sink: Sink, mode: ChangelogMode) -> None:
    """Whether the sink and the sources of the query allow its ON CONFLICT.

    Raises:
        SqlError: SQL143, a sink that has no conflicts; SQL144, a source without watermarks.
    """
    summary = sink.table.identifier.summary
    why = None
    if mode == INSERT_ONLY:
        why = "it only adds rows"
    elif RowKind.UPDATE_BEFORE in mode:
        why = "it takes updates with their old rows"
    if why is not None:
        raise SqlError("SQL143", summary=summary, why=why, place=sink.place)
    if sink.conflict not in ("ERROR", "NOTHING"):
        return
    scans = [rel for rel in walk(sink) if isinstance(rel, Scan) and not rel.table.schema.watermarks]
    if scans:
        tables = ", ".join(dict.fromkeys(f"'{s.table.identifier.summary}'" for s in scans))
        raise SqlError("SQL144", conflict=sink.conflict, tables=tables, place=sink.place)
