"""Which changes each operator emits, and whether updates need their old row.

Source: Flink's ``FlinkChangelogModeInferenceProgram``: modifications are inferred from the sources up, the kind of
updates, then that of deletions, is requested from the sink down; where an operator cannot give what is asked, the next
best is tried. Normalization that nobody needs is omitted (``ChangelogNormalizeRequirementResolver``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from stateplan.common.changelog import INSERT_ONLY, UPSERT, ChangelogMode, RowKind
from stateplan.common.errors import OptionError, SqlError
from stateplan.common.settings import is_batch, value
from stateplan.connectors.registry import find_connector, sink_changelog_mode, sink_takes_key_deletes
from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import (
    ChangelogNormalize,
    Join,
    MultiJoin,
    Rank,
    Rel,
    Scan,
    Sink,
    replace_inputs,
    walk,
)
from stateplan.planner.metadata.unique_keys import upsert_keys
from stateplan.planner.operators import operator_of
from stateplan.planner.operators.base import deleting, not_consumed, update
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind, kinds_of

_TAKING_BACK = (ChangelogNormalize, Join, MultiJoin, OverAggregate, Rank)


def take_back(rel: Rel) -> Rel:
    """``rel`` with joins and ranks that require the old rows of updates, if without these they would keep rows that no
    longer exist; with outer joins, normalizations and OVER whose changes are not taken for additions; and with
    multi-joins that keep rows by keys whose changes are in order."""
    out = replace_inputs(rel, [take_back(i) for i in rel.inputs])
    return replace(out, takes_back=True) if isinstance(out, _TAKING_BACK) else out


def infer_changelog(sink: Sink, options: Mapping[str, str]) -> Physical:
    """The plan of ``sink`` with changelog modes.

    Raises:
        SqlError: SQL140, a sink that cannot take the changes of its query; SQL141, a primary key of the sink that is
            not the key of the changes, without a word on conflicts; SQL143, SQL144, an ON CONFLICT that cannot be.
        OptionError: OPT152, changes for a table whose connector finds rows by a primary key that it does not have.
    """
    below = _kinds(sink.input, bool(value(options, "table.exec.mini-batch.enabled")))
    accepted = kinds_of(sink_changelog_mode(sink.table.options))
    _check_accepted(below, accepted, sink)
    for update_kind in _possible_update_kinds(sink, below):
        updating = update(below, update_kind)
        if updating is None:
            continue
        deletes: tuple[DeleteKind, ...] = ("FULL_DELETE",)
        if sink_takes_key_deletes(sink.table.options):
            deletes = ("DELETE_BY_KEY", "FULL_DELETE")
        for kind in deletes:
            node = deleting(updating, kind)
            if node is not None:
                return _sink(replace(sink, input=node.rel), node, options)
    raise AssertionError("no kind of updates and deletions fits")


def _kinds(rel: Rel, mini_batch: bool) -> Physical:
    inputs = tuple(_kinds(i, mini_batch) for i in rel.inputs)
    kinds = operator_of(type(rel)).provided(rel, inputs, mini_batch)
    return Physical(replace_inputs(rel, [i.rel for i in inputs]), inputs, kinds, "NONE")


def _check_accepted(node: Physical, accepted: Kinds, sink: Sink) -> None:
    if node.kinds - accepted:
        summary = sink.table.identifier.summary
        raise not_consumed(
            f"the table '{summary}'",
            node,
            accepted,
            sink.place,
            "a query that only adds rows, or a sink that takes updates, such as print or the format debezium-json",
        )


def _possible_update_kinds(sink: Sink, below: Physical) -> list[UpdateKind]:
    if "UPDATE" not in below.kinds:
        return ["NONE"]
    if RowKind.UPDATE_BEFORE in sink_changelog_mode(sink.table.options) or _key_differs(sink, below):
        return ["BEFORE_AND_AFTER"]
    return ["ONLY_UPDATE_AFTER", "BEFORE_AND_AFTER"]


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
    query_mode = INSERT_ONLY if below.is_insert_only else UPSERT
    mode = sink_changelog_mode(sink.table.options, query_mode)
    needs_key = query_mode != INSERT_ONLY and find_connector(sink.table.options).changes_need_key
    if needs_key and not sink.table.schema.primary_key:
        raise OptionError("OPT152", summary=sink.table.identifier.summary, place=sink.place)
    if sink.conflict is not None:
        _check_conflict(sink, mode)
    choice = value(options, "table.exec.sink.upsert-materialize")
    key = _primary_key(sink)
    retracts = RowKind.UPDATE_BEFORE in mode
    materialize = False
    if is_batch(options):
        choice = "NONE"  # there are no updates to put in order
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
    key_text = "none" if not keys else ", ".join(names[i] for i in keys[0])
    primary = ", ".join(sink.table.schema.primary_key)
    return SqlError("SQL141", summary=sink.table.identifier.summary, primary=primary, shown=key_text, place=sink.place)


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
