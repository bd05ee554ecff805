"""Which changes each operator emits, and whether updates need their old row.

Source: Flink's ``FlinkChangelogModeInferenceProgram``: modifications are inferred from the sources up, the kind of
updates is asked for from the sink down; where an operator cannot give what is asked, the next best is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from execnodes.changelog import INSERT_ONLY, RowKind
from execnodes.connectors.registry import sink_changelog_mode, source_changelog_mode
from execnodes.errors import SqlError
from planner.algebra import Aggregate, Calc, Exchange, Join, Rank, Rel, Scan, Sink, Union, replace_inputs
from planner.binding.errors import not_supported
from planner.digest import describe
from planner.expressions.ops import input_refs
from planner.metadata.unique_keys import join_input_keys, upsert_keys
from planner.passes.push_filters import equi_keys
from planner.physical import Kinds, Physical, UpdateKind, kinds_of

__all__ = ["infer_changelog"]

_INSERT: Kinds = frozenset({"INSERT"})
_ALL: Kinds = frozenset({"INSERT", "UPDATE", "DELETE"})

_WITHOUT_UPDATE_BEFORE = ("blackhole",)
"""Connectors that take every change but ask for updates without their old rows."""


def infer_changelog(sink: Sink, options: Mapping[str, str]) -> Physical:
    """The plan of ``sink`` with changelog modes.

    Raises:
        SqlError: SQL140, a sink that cannot take the changes of its query; SQL141, a primary key of the sink that is
            not the key of the changes.
    """
    below = _kinds(sink.input)
    accepted = kinds_of(sink_changelog_mode(sink.table.options))
    _check_accepted(below, accepted, sink)
    for wanted in _wanted(sink, below):
        node = _update(below, wanted)
        if node is not None:
            return _sink(replace(sink, input=node.rel), node, options)
    raise AssertionError("no kind of updates fits")


# modifications


def _kinds(rel: Rel) -> Physical:
    inputs = tuple(_kinds(i) for i in rel.inputs)
    return Physical(replace_inputs(rel, [i.rel for i in inputs]), inputs, _provided(rel, inputs), "NONE")


def _provided(rel: Rel, inputs: tuple[Physical, ...]) -> Kinds:
    if isinstance(rel, Scan):
        return kinds_of(source_changelog_mode(rel.table.options))
    if isinstance(rel, Aggregate):
        shrinks = bool(inputs[0].kinds & {"UPDATE", "DELETE"})
        return _ALL if shrinks else frozenset({"INSERT", "UPDATE"})
    if isinstance(rel, Rank):
        if not inputs[0].is_insert_only:
            raise not_supported(
                "ROW_NUMBER over a query or table with updates",
                rel.place,
                "remove duplicates before anything that updates rows",
            )
        return _INSERT if rel.order[0][1] else _ALL
    if isinstance(rel, Join) and rel.join_type not in ("INNER", "SEMI"):
        return _ALL
    if isinstance(rel, (Join, Union, Calc, Exchange)):
        out: Kinds = frozenset()
        for i in inputs:
            out |= i.kinds
        return out
    raise AssertionError(f"no changelog mode for {type(rel).__name__}")


def _check_accepted(node: Physical, accepted: Kinds, sink: Sink) -> None:
    extra = node.kinds - accepted
    if not extra:
        return
    culprit = node
    while isinstance(culprit.rel, (Calc, Exchange, Union, Join)):
        below = next((i for i in culprit.inputs if i.kinds & extra), None)
        if below is None or isinstance(culprit.rel, Join):
            break
        culprit = below
    words = " and ".join(w for k, w in (("UPDATE", "update"), ("DELETE", "delete")) if k in extra)
    summary = sink.table.identifier.summary
    raise SqlError(
        "SQL140",
        f"the table '{summary}' doesn't support consuming {words} changes which is produced by node "
        f"{describe(culprit)}",
        place=sink.place,
        expected="a query that only adds rows, or a sink that takes updates, such as print or the format debezium-json",
    )


# updates


def _wanted(sink: Sink, below: Physical) -> list[UpdateKind]:
    if "UPDATE" not in below.kinds:
        return ["NONE"]
    mode = sink_changelog_mode(sink.table.options)
    only_after = RowKind.UPDATE_BEFORE not in mode or sink.table.options.get("connector") in _WITHOUT_UPDATE_BEFORE
    if not only_after:
        return ["BEFORE_AND_AFTER"]
    if _key_differs(sink, below):
        return ["BEFORE_AND_AFTER"]
    return ["ONLY_UPDATE_AFTER", "BEFORE_AND_AFTER"]


def _asked(node: Physical, kind: UpdateKind) -> UpdateKind:
    """``kind`` where the node updates rows, else NONE."""
    return kind if "UPDATE" in node.kinds else "NONE"


def _rebuilt(node: Physical, inputs: list[Physical | None], update: UpdateKind) -> Physical | None:
    known = [i for i in inputs if i is not None]
    if len(known) < len(inputs):
        return None
    return Physical(replace_inputs(node.rel, [i.rel for i in known]), tuple(known), node.kinds, update)


def _update(node: Physical, required: UpdateKind) -> Physical | None:
    """``node`` emitting updates as ``required``, or None where it cannot."""
    return _VISITORS[type(node.rel)](node, _asked(node, required))


def _scan(node: Physical, required: UpdateKind) -> Physical | None:
    # Flink would put a DropUpdateBefore behind the source; here the sink then takes the old rows too.
    return replace(node, update=required) if required != "ONLY_UPDATE_AFTER" else None


def _aggregate(node: Physical, required: UpdateKind) -> Physical | None:
    return _rebuilt(node, [_update(node.input, "BEFORE_AND_AFTER")], required)


def _rank(node: Physical, required: UpdateKind) -> Physical | None:
    return _rebuilt(node, [_update(node.input, "NONE")], required)


def _join(node: Physical, required: UpdateKind) -> Physical | None:
    join = node.rel
    assert isinstance(join, Join)
    pairs = equi_keys(join.condition, join.left.width)
    inputs: list[Physical | None] = []
    for side, child in enumerate(node.inputs):
        if required == "ONLY_UPDATE_AFTER":
            keys = frozenset(p[side] for p in pairs)
            in_key = any(keys <= frozenset(k) for k in join_input_keys(child.rel, [p[side] for p in pairs]))
            if "UPDATE" in child.kinds and not in_key:
                return None
            inputs.append(_update(child, "ONLY_UPDATE_AFTER"))
        else:
            inputs.append(_update(child, "BEFORE_AND_AFTER"))
    return _rebuilt(node, inputs, required)


def _calc(node: Physical, required: UpdateKind) -> Physical | None:
    calc = node.rel
    assert isinstance(calc, Calc)
    if required == "ONLY_UPDATE_AFTER" and calc.condition is not None:
        used = frozenset(input_refs(calc.condition))
        if not any(used <= k for k in upsert_keys(calc.input)):
            return None
    return _rebuilt(node, [_update(node.input, required)], required)


def _passed(node: Physical, required: UpdateKind) -> Physical | None:
    return _rebuilt(node, [_update(i, required) for i in node.inputs], required)


_VISITORS: dict[type[Rel], Callable[[Physical, UpdateKind], Physical | None]] = {
    Scan: _scan,
    Aggregate: _aggregate,
    Rank: _rank,
    Join: _join,
    Calc: _calc,
    Exchange: _passed,
    Union: _passed,
}


# the sink


def _primary_key(sink: Sink) -> frozenset[int]:
    columns = [c.name for c in sink.table.schema.persisted]
    return frozenset(columns.index(n) for n in sink.table.schema.primary_key)


def _key_differs(sink: Sink, below: Physical) -> bool:
    """Whether the sink has a primary key, and no upsert key of the changes lies within it."""
    key = _primary_key(sink)
    return bool(key) and not below.is_insert_only and not any(k <= key for k in upsert_keys(below.rel))


def _sink(sink: Sink, below: Physical, options: Mapping[str, str]) -> Physical:
    node = Physical(sink, (below,), below.kinds, below.update)
    choice = options.get("table.exec.sink.upsert-materialize", "AUTO").upper()
    insert_only = sink_changelog_mode(sink.table.options) == INSERT_ONLY
    if choice == "NONE" or insert_only or not _key_differs(sink, below):
        return node
    names = [n for n, _ in sink.input.fields]
    keys = sorted(sorted(k) for k in upsert_keys(sink.input))
    shown = "none" if not keys else ", ".join(names[i] for i in keys[0])
    primary = ", ".join(sink.table.schema.primary_key)
    raise SqlError(
        "SQL141",
        "the query has an upsert key that differs from the primary key of the sink table "
        f"'{sink.table.identifier.summary}': primary key ({primary}), upsert key ({shown}); rows with different "
        "upsert keys may have the same primary key, and the last change would win",
        place=sink.place,
        expected=f"changes by ({primary})",
        hint="declare the sink without PRIMARY KEY, or SET 'table.exec.sink.upsert-materialize' = 'NONE'",
    )
