"""Joins: regular, of several inputs, by interval, of versions, and with looked-up rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.execnodes.types import row_type
from stateplan.planner.algebra.join_keys import common_keys, equal_fields, equi_keys, is_equi_key, null_filters
from stateplan.planner.algebra.relations import (
    Exchange,
    Join,
    MultiJoin,
    Rel,
    field_names,
    unique_names,
)
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, TemporalJoin
from stateplan.planner.algebra.windows import (
    WindowJoin,
)
from stateplan.planner.digest.calcite_types import conjunction
from stateplan.planner.digest.expressions import (
    JOIN_NAMES,
    expression,
    key_names,
    record_text,
)
from stateplan.planner.digest.literals import charset
from stateplan.planner.expressions.ops import TRUE, and_, call, conjunctions, is_always_true
from stateplan.planner.metadata.unique_keys import join_input_keys, smallest_key, upsert_keys
from stateplan.planner.operators.base import (
    ALL,
    Json,
    Lowering,
    Operator,
    deleting,
    insert_only,
    rebuilt,
    update,
    with_deletions,
)
from stateplan.planner.operators.tables import table_source
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind, changelog_mode


def join_spec(join_type: str, condition: Rex, width: int, rest: Rex) -> Json:
    """Flink's ``JoinSpec``.

    Args:
        join_type: As :class:`planner.algebra.relations.Join` has it.
        condition: The whole condition, over the fields of both inputs.
        width: How many of these are the left input's.
        rest: What of the condition is not an equality of two keys; TRUE for nothing.
    """
    pairs = equi_keys(condition, width)
    return {
        "joinType": join_type,
        "leftKeys": [k for k, _ in pairs],
        "rightKeys": [k for _, k in pairs],
        "filterNulls": null_filters(condition, width),
        "nonEquiCondition": None if is_always_true(rest) else rest.to_json(),
    }


def by_join_keys(rel: Join | TemporalJoin | IntervalJoin | WindowJoin, inputs: Sequence[Rel], condition: Rex) -> Rel:
    """The join with each input spread by its fields that ``condition`` makes equal to fields of the other."""
    keys = equi_keys(condition, rel.left.width)
    left, right = tuple(k for k, _ in keys), tuple(k for _, k in keys)
    return replace(rel, left=Exchange(inputs[0], left), right=Exchange(inputs[1], right))


def _within_join_keys(inputs: Sequence[Rel], keys: Sequence[Sequence[int]]) -> list[bool]:
    """Per input, whether it has an upsert key that contains its fields of the join key."""
    return [
        any(frozenset(own) <= frozenset(k) for k in join_input_keys(rel, own))
        for rel, own in zip(inputs, keys, strict=True)
    ]


def _key_sides(rel: Join) -> list[list[int]]:
    pairs = equi_keys(rel.condition, rel.left.width)
    return [[p[side] for p in pairs] for side in (0, 1)]


def _update_join(node: Physical, required: UpdateKind, keys: Sequence[Sequence[int]]) -> Physical | None:
    inputs: list[Physical | None] = []
    for child, in_key in zip(node.inputs, _within_join_keys(node.rel.inputs, keys), strict=True):
        if required == "ONLY_UPDATE_AFTER":
            if "UPDATE" in child.kinds and not in_key:
                return None
            inputs.append(update(child, "ONLY_UPDATE_AFTER"))
        else:
            inputs.append(update(child, "BEFORE_AND_AFTER"))
    return rebuilt(node, inputs, required)


def _delete_join(node: Physical, required: DeleteKind, keys: Sequence[Sequence[int]]) -> Physical | None:
    sides = [
        deleting(child, "DELETE_BY_KEY" if required == "DELETE_BY_KEY" and in_key else "FULL_DELETE")
        for child, in_key in zip(node.inputs, _within_join_keys(node.rel.inputs, keys), strict=True)
    ]
    by_key = any(s is not None and s.delete == "DELETE_BY_KEY" for s in sides)
    return with_deletions(node, sides, "DELETE_BY_KEY" if by_key else "FULL_DELETE")


class JoinOperator(Operator[Join], of=Join):
    name = "Join"
    node = "stream-exec-join_1"
    passes_changes = True

    def describe(self, rel: Join, node: Physical) -> list[str]:
        names = field_names(rel)
        both = unique_names([*field_names(rel.left), *field_names(rel.right)])
        sides = [_input_spec(rel, side) for side in (0, 1)]
        return [
            f"joinType=[{JOIN_NAMES[rel.join_type]}]",
            f"where=[{expression(rel.condition, both)}]",
            f"select=[{', '.join(names)}]",
            f"leftInputSpec=[{sides[0]}]",
            f"rightInputSpec=[{sides[1]}]",
            *(["miniBatch=[true]"] if rel.mini_batch else []),
        ]

    def lower(self, rel: Join, node: Physical, lowering: Lowering) -> Json:
        width = rel.left.width
        pairs = equi_keys(rel.condition, width)
        rest: Rex = and_(t for t in conjunctions(rel.condition) if not is_equi_key(t, width))
        out: Json = {"joinSpec": join_spec(rel.join_type, rel.condition, width, rest)}
        for side, name in enumerate(("leftUpsertKeys", "rightUpsertKeys")):
            keys = join_input_keys(rel.inputs[side], [p[side] for p in pairs])
            if keys:
                out[name] = [list(k) for k in keys]
        out["state"] = [lowering.state(0, rel.left_ttl, "leftState"), lowering.state(1, rel.right_ttl, "rightState")]
        return out

    def provided(self, rel: Join, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL if rel.join_type not in ("INNER", "SEMI") else super().provided(rel, inputs, mini_batch)

    def update(self, rel: Join, node: Physical, required: UpdateKind) -> Physical | None:
        return _update_join(node, required, _key_sides(rel))

    def delete(self, rel: Join, node: Physical, required: DeleteKind) -> Physical | None:
        return _delete_join(node, required, _key_sides(rel))

    def distribute(self, rel: Join, inputs: Sequence[Rel]) -> Rel:
        return by_join_keys(rel, inputs, rel.condition)


def _input_spec(rel: Join, side: int) -> str:
    from stateplan.planner.algebra.join_keys import equi_keys
    from stateplan.planner.metadata.unique_keys import join_input_keys

    keys = [p[side] for p in equi_keys(rel.condition, rel.left.width)]
    unique = join_input_keys(rel.inputs[side], keys)
    if not unique:
        return "NoUniqueKey"
    return "JoinKeyContainsUniqueKey" if any(set(k) <= set(keys) for k in unique) else "HasUniqueKey"


class MultiJoinOperator(Operator[MultiJoin], of=MultiJoin):
    name = "MultiJoin"
    node = "stream-exec-multi-join_1"
    passes_changes = True

    def describe(self, rel: MultiJoin, node: Physical) -> list[str]:
        shared = common_keys(rel)
        keys = []
        for source, own in zip(rel.sources, shared, strict=True):
            found = [f"({key_names(k, source)})" for k in join_input_keys(source, own)]
            keys.append(", ".join(found) or "noUniqueKey")
        out = [
            f"commonJoinKey=[{key_names(shared[0], rel) or 'noCommonJoinKey'}]",
            f"joinTypes=[{', '.join(rel.join_types[1:])}]",
            f"inputUniqueKeys=[{', '.join(keys)}]",
        ]
        if any(rel.ttl_texts):
            out.append(f"stateTtlHints=[[[STATE_TTL options:[{', '.join(t or '0s' for t in rel.ttl_texts)}]]]]")
        conditions = ", ".join(expression(c, rel.names) for c in rel.conditions[1:])
        select = ",".join(rel.names)
        return [*out, f"joinConditions=[{conditions}]", f"select=[{select}]", f"rowType=[{record_text(rel)}]"]

    def lower(self, rel: MultiJoin, node: Physical, lowering: Lowering) -> Json:
        whole: Rex = and_(t for c in rel.conditions for t in conjunctions(c))
        attributes: dict[str, list[Json]] = {}
        for n, pairs in enumerate(equal_fields(rel)):
            for source, field, own in pairs:
                if source == 0:
                    attributes.setdefault("0", []).append(_attribute(-1, -1, 0, field))
                attributes.setdefault(str(n), []).append(_attribute(source, field, n, own))
        out: Json = {"joinTypes": list(rel.join_types), "joinConditions": [c.to_json() for c in rel.conditions]}
        if not is_always_true(whole):
            out["multiJoinCondition"] = whole.to_json()
        if attributes:
            out["joinAttributeMap"] = dict(sorted(attributes.items()))
        shared = zip(rel.sources, common_keys(rel), strict=True)
        out["inputUniqueKeys"] = [[list(k) for k in join_input_keys(source, keys)] for source, keys in shared]
        out["state"] = [lowering.state(i, ttl, f"input-state-{i}") for i, ttl in enumerate(rel.ttls)]
        return out

    def provided(self, rel: MultiJoin, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL if "LEFT" in rel.join_types else super().provided(rel, inputs, mini_batch)

    def update(self, rel: MultiJoin, node: Physical, required: UpdateKind) -> Physical | None:
        return _update_join(node, required, common_keys(rel))

    def delete(self, rel: MultiJoin, node: Physical, required: DeleteKind) -> Physical | None:
        return _delete_join(node, required, common_keys(rel))

    def distribute(self, rel: MultiJoin, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, sources=tuple(map(Exchange, inputs, common_keys(rel))))

    def required_keys(self, rel: MultiJoin) -> Sequence[Sequence[int]]:
        return common_keys(rel)


def _attribute(left_input: int, left_field: int, right_input: int, right_field: int) -> Json:
    return {
        "leftInputId": left_input,
        "leftFieldIndex": left_field,
        "rightInputId": right_input,
        "rightFieldIndex": right_field,
    }


class TemporalJoinOperator(Operator[TemporalJoin], of=TemporalJoin):
    name = "TemporalJoin"
    node = "stream-exec-temporal-join_1"

    def describe(self, rel: TemporalJoin, node: Physical) -> list[str]:
        assert rel.right_time is not None
        both = unique_names([*field_names(rel.left), *field_names(rel.right)])
        width = rel.left.width
        pairs = equi_keys(rel.condition, width)

        def condition(what: str, keys: Iterable[int]) -> str:
            return f"__TEMPORAL_JOIN_{what}({', '.join(both[k] for k in keys)})"

        keys = [
            condition("CONDITION_PRIMARY_KEY", (width + k for k in rel.primary_key)),
            condition("LEFT_KEY", (k for k, _ in pairs)),
            condition("RIGHT_KEY", (width + k for _, k in pairs)),
        ]
        times = [both[rel.left_time], both[width + rel.right_time]]
        terms = [expression(t, both) for t in conjunctions(rel.condition)]
        terms.append(f"__TEMPORAL_JOIN_CONDITION({', '.join([*times, *keys])})")
        return [
            f"joinType=[{JOIN_NAMES[rel.join_type]}]",
            f"where=[{conjunction(terms)}]",
            f"select=[{', '.join(field_names(rel))}]",
        ]

    def lower(self, rel: TemporalJoin, node: Physical, lowering: Lowering) -> Json:
        width = rel.left.width
        rest: Rex = and_(t for t in conjunctions(rel.condition) if not is_equi_key(t, width))
        if not is_always_true(rest):
            # Flink has TRUE where it took out the condition on time.
            rest = call("AND", [*conjunctions(rest), TRUE], rest.type)
        return {
            "joinSpec": join_spec(rel.join_type, rel.condition, width, rest),
            "isTemporalFunctionJoin": False,
            "leftTimeAttributeIndex": rel.left_time,
            "rightTimeAttributeIndex": rel.right_time,
            "state": [lowering.state(0, rel.left_ttl, "leftState"), lowering.state(1, rel.right_ttl, "rightState")],
        }

    def provided(self, rel: TemporalJoin, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return inputs[0].kinds

    def update(self, rel: TemporalJoin, node: Physical, required: UpdateKind) -> Physical | None:
        left, right = node.inputs
        versions = update(right, "ONLY_UPDATE_AFTER") or update(right, "BEFORE_AND_AFTER")
        return rebuilt(node, [update(left, required), versions], required)

    def delete(self, rel: TemporalJoin, node: Physical, required: DeleteKind) -> Physical | None:
        left, right = node.inputs
        versions = deleting(right, "DELETE_BY_KEY") or deleting(right, "FULL_DELETE")
        return with_deletions(node, [deleting(left, required), versions], required)

    def distribute(self, rel: TemporalJoin, inputs: Sequence[Rel]) -> Rel:
        return by_join_keys(rel, inputs, rel.condition)

    def waits_for_watermarks(self, rel: TemporalJoin) -> bool:
        return rel.right_time is not None


class IntervalJoinOperator(Operator[IntervalJoin], of=IntervalJoin):
    name = "IntervalJoin"
    node = "stream-exec-interval-join_1"

    def describe(self, rel: IntervalJoin, node: Physical) -> list[str]:
        both = unique_names([*field_names(rel.left), *field_names(rel.right)])
        bounds = {
            "isRowTime": str(rel.event_time).lower(),
            "leftLowerBound": rel.lower,
            "leftUpperBound": rel.upper,
            "leftTimeIndex": rel.left_time,
            "rightTimeIndex": rel.right_time,
        }
        return [
            f"joinType=[{JOIN_NAMES[rel.join_type]}]",
            f"windowBounds=[{', '.join(f'{k}={v}' for k, v in bounds.items())}]",
            f"where=[{expression(rel.condition, both)}]",
            f"select=[{', '.join(field_names(rel))}]",
        ]

    def lower(self, rel: IntervalJoin, node: Physical, lowering: Lowering) -> Json:
        width = rel.left.width
        rest = and_(t for t in conjunctions(rel.rest) if not is_equi_key(t, width))
        bounds = {
            "isEventTime": rel.event_time,
            "leftLowerBound": rel.lower,
            "leftUpperBound": rel.upper,
            "leftTimeIndex": rel.left_time,
            "rightTimeIndex": rel.right_time,
        }
        spec = join_spec(rel.join_type, rel.rest, width, rest)
        return {"intervalJoinSpec": {"joinSpec": spec, "windowBounds": bounds}}

    def provided(self, rel: IntervalJoin, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return insert_only("an interval join", inputs, rel.place, "tables that only add rows")

    def distribute(self, rel: IntervalJoin, inputs: Sequence[Rel]) -> Rel:
        return by_join_keys(rel, inputs, rel.rest)

    def waits_for_watermarks(self, rel: IntervalJoin) -> bool:
        return rel.event_time


class LookupJoinOperator(Operator[LookupJoin], of=LookupJoin):
    name = "LookupJoin"
    node = "stream-exec-lookup-join_1"
    passes_changes = True

    def describe(self, rel: LookupJoin, node: Physical) -> list[str]:
        inputs, columns = field_names(rel.input), field_names(rel.table)
        keys = [f"{columns[f]}={_key_literal(c)}" for f, c in rel.constants]
        keys += [f"{columns[f]}={inputs[k]}" for f, k in rel.keys]
        out = [
            f"table=[{rel.table.table.identifier.summary}]",
            f"joinType=[{JOIN_NAMES[rel.join_type]}]",
            f"lookup=[{', '.join(keys)}]",
        ]
        if rel.calc is not None and rel.calc.condition is not None:
            out.append(f"where=[{expression(rel.calc.condition, columns)}]")
        terms = [*conjunctions(rel.before), *conjunctions(rel.rest)]
        if terms:
            both = unique_names([*inputs, *field_names(rel.found)])
            texts = [expression(t, both) for t in terms]
            out.append(f"joinCondition=[{conjunction(texts)}]")
        found = rel.calc.exprs if rel.calc is not None else ()
        names = field_names(rel)
        shown = names[: len(inputs)]
        for i, name in enumerate(names[len(inputs) :]):
            text = expression(found[i], columns) if found and not isinstance(found[i], InputRef) else name
            shown.append(text if text == name else f"{text} AS {name}")
        out.append(f"select=[{', '.join(shown)}]")
        if rel.materialize:
            out.append("upsertMaterialize=[true]")
        key = smallest_key(upsert_keys(rel.input))
        if key is not None:
            out.append(f"upsertKey=[[{', '.join(map(str, key))}]]")
        return out

    def lower(self, rel: LookupJoin, node: Physical, lowering: Lowering) -> Json:
        keys: dict[int, Json] = {f: {"type": "FieldRef", "index": k} for f, k in rel.keys}
        for f, constant in rel.constants:
            kind = rel.table.types[f].to_json()
            keys.setdefault(f, {"type": "Constant", "sourceType": kind, "literal": constant.to_json()})
        out: Json = {"joinType": rel.join_type}
        if rel.before is not None:
            out["preFilterCondition"] = rel.before.to_json()
        calc = rel.calc
        condition = None if calc is None else calc.condition
        primary = rel.table.key
        out |= {
            "joinCondition": None if rel.rest is None else rel.rest.to_json(),
            "temporalTable": {
                "lookupTableSource": table_source(lowering, rel.table),
                "outputType": row_type(list(rel.table.fields), nullable=False).to_json(),
            },
            "lookupKeys": {str(f): keys[f] for f in sorted(keys)},
            "projectionOnTemporalTable": None if calc is None else [e.to_json() for e in calc.exprs],
            "filterOnTemporalTable": None if condition is None else condition.to_json(),
            "lookupKeyContainsPrimaryKey": primary is not None and set(primary) <= {f for f, _ in rel.keys},
        }
        if rel.materialize:
            out["requireUpsertMaterialize"] = True
        out["inputChangelogMode"] = changelog_mode(node.input)
        upsert_key = smallest_key(upsert_keys(rel.input))
        if upsert_key is not None:
            out["inputUpsertKey"] = list(upsert_key)
        if rel.materialize:
            out["state"] = [lowering.state(0, rel.ttl, "lookupJoinState")]
        return out | {"preferCustomShuffle": False}

    def delete(self, rel: LookupJoin, node: Physical, required: DeleteKind) -> Physical | None:
        return with_deletions(node, [deleting(node.input, "FULL_DELETE")], "FULL_DELETE")


def _key_literal(rex: Rex) -> str:
    assert isinstance(rex, Literal)
    return charset(str(rex.value)) if rex.type.is_string else expression(rex, ())
