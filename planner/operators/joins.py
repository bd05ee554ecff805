"""Joins: regular, of several inputs, by interval, of versions, and with looked-up rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from stateplan.common.types import row_type
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.interval_join import IntervalJoin as IntervalJoinNode
from stateplan.execnodes.nodes.interval_join import IntervalJoinSpec, WindowBounds
from stateplan.execnodes.nodes.join import Join as JoinNode
from stateplan.execnodes.nodes.lookup_join import LookupJoin as LookupJoinNode
from stateplan.execnodes.nodes.multi_join import JoinAttribute
from stateplan.execnodes.nodes.multi_join import MultiJoin as MultiJoinNode
from stateplan.execnodes.nodes.temporal_join import TemporalJoin as TemporalJoinNode
from stateplan.execnodes.specs import JoinSpec, JoinType, LookupKey, TemporalTable
from stateplan.functions.rex import Literal, Rex, input_refs
from stateplan.planner.algebra.base import InputHint
from stateplan.planner.algebra.join_keys import common_keys, equal_fields, equi_keys, null_filters, without_equi_keys
from stateplan.planner.algebra.relations import Exchange, Join, MultiJoin, Rel, field_names, unique_names
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, TemporalJoin
from stateplan.planner.algebra.windows import WindowJoin
from stateplan.planner.digest.expressions import JOIN_NAMES, Notation, key_names, record_text, with_name
from stateplan.planner.digest.literals import charset
from stateplan.planner.expressions.ops import TRUE, and_, call, conjunctions, is_always_true
from stateplan.planner.metadata.unique_keys import join_input_keys, smallest_key, sorted_keys, unique_keys, upsert_keys
from stateplan.planner.operators.base import ALL, Lowering, Operator, deleting, rebuilt, update, with_deletions
from stateplan.planner.operators.tables import table_source
from stateplan.planner.physical import DeleteKind, Kinds, Physical, UpdateKind, changelog_mode


def join_spec(join_type: JoinType, condition: Rex, width: int) -> JoinSpec:
    """Flink's ``JoinSpec``.

    Args:
        join_type: As :class:`planner.algebra.relations.Join` has it.
        condition: The whole condition, over the fields of both inputs.
        width: How many of these are the left input's.
    """
    pairs = equi_keys(condition, width)
    rest = without_equi_keys(condition, width)
    return JoinSpec(
        join_type=join_type,
        left_keys=tuple(k for k, _ in pairs),
        right_keys=tuple(k for _, k in pairs),
        filter_nulls=tuple(null_filters(condition, width)),
        non_equi_condition=None if is_always_true(rest) else rest,
    )


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


def _update_join(node: Physical, required_kind: UpdateKind, keys: Sequence[Sequence[int]]) -> Physical | None:
    inputs: list[Physical | None] = []
    for child, in_key in zip(node.inputs, _within_join_keys(node.rel.inputs, keys), strict=True):
        if required_kind == "ONLY_UPDATE_AFTER":
            if "UPDATE" in child.kinds and not in_key:
                return None
            inputs.append(update(child, "ONLY_UPDATE_AFTER"))
        else:
            inputs.append(update(child, "BEFORE_AND_AFTER"))
    return rebuilt(node, inputs, required_kind)


def leaves_rows(rel: Join, node: Physical) -> bool:
    """Whether pairs stay that an update has ended: where it may change what a further condition compares, and the join
    emits no deletion that could say so (FLINK-38579)."""
    if "DELETE" in node.kinds:
        return False
    width = rel.left.width
    compared_fields = input_refs(without_equi_keys(rel.condition, width))
    for child, offset in zip(node.inputs, (0, width), strict=True):
        own = {c - offset for c in compared_fields if 0 <= c - offset < child.rel.width}
        if "UPDATE" in child.kinds and own and not any(own <= k for k in upsert_keys(child.rel)):
            return True
    return False


def _delete_join(node: Physical, required_kind: DeleteKind, keys: Sequence[Sequence[int]]) -> Physical | None:
    sides = [
        deleting(child, "DELETE_BY_KEY" if required_kind == "DELETE_BY_KEY" and in_key else "FULL_DELETE")
        for child, in_key in zip(node.inputs, _within_join_keys(node.rel.inputs, keys), strict=True)
    ]
    by_key = any(s is not None and s.delete == "DELETE_BY_KEY" for s in sides)
    return with_deletions(node, sides, "DELETE_BY_KEY" if by_key else "FULL_DELETE")


class JoinOperator(Operator[Join], of=Join, node=JoinNode):
    hint_fields = ("left_hint", "right_hint")

    def describe(self, rel: Join, node: Physical, notation: Notation) -> list[str]:
        names = field_names(rel)
        both = unique_names([*field_names(rel.left), *field_names(rel.right)])
        sides = [_input_spec(rel, side) for side in (0, 1)]
        return [
            f"joinType=[{JOIN_NAMES[rel.join_type]}]",
            f"where=[{notation.expression(rel.condition, both)}]",
            f"select=[{', '.join(names)}]",
            f"leftInputSpec=[{sides[0]}]",
            f"rightInputSpec=[{sides[1]}]",
            *(["miniBatch=[true]"] if rel.mini_batch else []),
        ]

    def lower(self, rel: Join, node: Physical, lowering: Lowering) -> ExecNode:
        width = rel.left.width
        pairs = equi_keys(rel.condition, width)
        left, right = (tuple(join_input_keys(rel.inputs[side], [p[side] for p in pairs])) for side in (0, 1))
        return JoinNode(
            **self.common(rel, node, lowering),
            join_spec=join_spec(rel.join_type, rel.condition, width),
            left_upsert_keys=left,
            right_upsert_keys=right,
        )

    def provided(self, rel: Join, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL if rel.join_type not in ("INNER", "SEMI") else super().provided(rel, inputs, mini_batch)

    def update(self, rel: Join, node: Physical, required_kind: UpdateKind) -> Physical | None:
        if required_kind == "ONLY_UPDATE_AFTER" and rel.takes_back and leaves_rows(rel, node):
            return None
        return _update_join(node, required_kind, _key_sides(rel))

    def delete(self, rel: Join, node: Physical, required_kind: DeleteKind) -> Physical | None:
        return _delete_join(node, required_kind, _key_sides(rel))

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


def _input_keys(rel: MultiJoin, source: Rel, keys: Sequence[int]) -> list[tuple[int, ...]]:
    """The keys by which the join keeps the rows of an input: its unique ones. Flink takes also those where changes may
    be out of order."""
    unique = sorted_keys(unique_keys(source))
    in_order = join_input_keys(source, keys) if rel.takes_back else unique
    return [key for key in unique if key in in_order]


class MultiJoinOperator(Operator[MultiJoin], of=MultiJoin, node=MultiJoinNode):
    def describe(self, rel: MultiJoin, node: Physical, notation: Notation) -> list[str]:
        join_keys = common_keys(rel)
        keys = []
        for source, own in zip(rel.sources, join_keys, strict=True):
            source_keys = _input_keys(rel, source, own)
            key_texts = [f"({key_names(k, source)})" if k else "" for k in source_keys]  # no text for a single row
            keys.append(", ".join(key_texts) if source_keys else "noUniqueKey")
        out = [
            f"commonJoinKey=[{key_names(join_keys[0], rel) or 'noCommonJoinKey'}]",
            f"joinTypes=[{', '.join(rel.join_types[1:])}]",
            f"inputUniqueKeys=[{', '.join(keys)}]",
        ]
        if any(rel.ttl_texts):
            out.append(f"stateTtlHints=[[[STATE_TTL options:[{', '.join(t or '0s' for t in rel.ttl_texts)}]]]]")
        conditions = ", ".join(notation.expression(c, rel.names) for c in rel.conditions[1:])
        select = ",".join(rel.names)
        return [*out, f"joinConditions=[{conditions}]", f"select=[{select}]", f"rowType=[{record_text(rel)}]"]

    def lower(self, rel: MultiJoin, node: Physical, lowering: Lowering) -> ExecNode:
        condition: Rex = and_(t for c in rel.conditions for t in conjunctions(c))
        attributes: dict[str, list[JoinAttribute]] = {}
        for n, pairs in enumerate(equal_fields(rel)):
            for source, field, own in pairs:
                if source == 0:
                    attributes.setdefault("0", []).append(_attribute(-1, -1, 0, field))
                attributes.setdefault(str(n), []).append(_attribute(source, field, n, own))
        sources_and_keys = zip(rel.sources, common_keys(rel), strict=True)
        return MultiJoinNode(
            **self.common(rel, node, lowering),
            join_types=rel.join_types,
            join_conditions=rel.conditions,
            multi_join_condition=None if is_always_true(condition) else condition,
            join_attribute_map={n: tuple(attributes_of_input) for n, attributes_of_input in sorted(attributes.items())},
            input_unique_keys=tuple(tuple(_input_keys(rel, source, keys)) for source, keys in sources_and_keys),
        )

    def state_hints(self, rel: MultiJoin) -> Sequence[InputHint | None]:
        return rel.hints

    def provided(self, rel: MultiJoin, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return ALL if "LEFT" in rel.join_types else super().provided(rel, inputs, mini_batch)

    def update(self, rel: MultiJoin, node: Physical, required_kind: UpdateKind) -> Physical | None:
        return _update_join(node, required_kind, common_keys(rel))

    def delete(self, rel: MultiJoin, node: Physical, required_kind: DeleteKind) -> Physical | None:
        return _delete_join(node, required_kind, common_keys(rel))

    def distribute(self, rel: MultiJoin, inputs: Sequence[Rel]) -> Rel:
        return replace(rel, sources=tuple(map(Exchange, inputs, common_keys(rel))))

    def required_keys(self, rel: MultiJoin) -> Sequence[Sequence[int]]:
        return common_keys(rel)


def _attribute(left_input: int, left_field: int, right_input: int, right_field: int) -> JoinAttribute:
    return JoinAttribute(
        left_input_id=left_input,
        left_field_index=left_field,
        right_input_id=right_input,
        right_field_index=right_field,
    )


class TemporalJoinOperator(Operator[TemporalJoin], of=TemporalJoin, node=TemporalJoinNode):
    hint_fields = ("left_hint", "right_hint")

    def describe(self, rel: TemporalJoin, node: Physical, notation: Notation) -> list[str]:
        assert rel.right_time is not None
        both = unique_names([*field_names(rel.left), *field_names(rel.right)])
        width = rel.left.width
        pairs = equi_keys(rel.condition, width)

        def condition(name: str, keys: Iterable[int]) -> str:
            return f"__TEMPORAL_JOIN_{name}({', '.join(both[k] for k in keys)})"

        keys = [
            condition("CONDITION_PRIMARY_KEY", (width + k for k in rel.primary_key)),
            condition("LEFT_KEY", (k for k, _ in pairs)),
            condition("RIGHT_KEY", (width + k for _, k in pairs)),
        ]
        times = [both[rel.left_time], both[width + rel.right_time]]
        terms = [notation.expression(t, both) for t in conjunctions(rel.condition)]
        terms.append(f"__TEMPORAL_JOIN_CONDITION({', '.join([*times, *keys])})")
        return [
            f"joinType=[{JOIN_NAMES[rel.join_type]}]",
            f"where=[{notation.conjunction(terms)}]",
            f"select=[{', '.join(field_names(rel))}]",
        ]

    def lower(self, rel: TemporalJoin, node: Physical, lowering: Lowering) -> ExecNode:
        spec = join_spec(rel.join_type, rel.condition, rel.left.width)
        if (rest := spec.non_equi_condition) is not None:
            # Flink has TRUE where it took out the condition on time.
            condition = call("AND", [*conjunctions(rest), TRUE], rest.type)
            spec = spec.model_copy(update={"non_equi_condition": condition})
        assert rel.right_time is not None
        return TemporalJoinNode(
            **self.common(rel, node, lowering),
            join_spec=spec,
            is_temporal_function_join=False,
            left_time_attribute_index=rel.left_time,
            right_time_attribute_index=rel.right_time,
        )

    def provided(self, rel: TemporalJoin, inputs: Sequence[Physical], mini_batch: bool) -> Kinds:
        return inputs[0].kinds

    def update(self, rel: TemporalJoin, node: Physical, required_kind: UpdateKind) -> Physical | None:
        left, right = node.inputs
        versions = update(right, "ONLY_UPDATE_AFTER") or update(right, "BEFORE_AND_AFTER")
        return rebuilt(node, [update(left, required_kind), versions], required_kind)

    def delete(self, rel: TemporalJoin, node: Physical, required_kind: DeleteKind) -> Physical | None:
        left, right = node.inputs
        versions = deleting(right, "DELETE_BY_KEY") or deleting(right, "FULL_DELETE")
        return with_deletions(node, [deleting(left, required_kind), versions], required_kind)

    def distribute(self, rel: TemporalJoin, inputs: Sequence[Rel]) -> Rel:
        return by_join_keys(rel, inputs, rel.condition)

    def waits_for_watermarks(self, rel: TemporalJoin) -> bool:
        return rel.right_time is not None


class IntervalJoinOperator(Operator[IntervalJoin], of=IntervalJoin, node=IntervalJoinNode, clause="an interval join"):
    hint_fields = ("left_hint", "right_hint")

    def describe(self, rel: IntervalJoin, node: Physical, notation: Notation) -> list[str]:
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
            f"where=[{notation.expression(rel.condition, both)}]",
            f"select=[{', '.join(field_names(rel))}]",
        ]

    def lower(self, rel: IntervalJoin, node: Physical, lowering: Lowering) -> ExecNode:
        bounds = WindowBounds(
            is_event_time=rel.event_time,
            left_lower_bound=rel.lower,
            left_upper_bound=rel.upper,
            left_time_index=rel.left_time,
            right_time_index=rel.right_time,
        )
        keys = join_spec(rel.join_type, rel.rest, rel.left.width)
        spec = IntervalJoinSpec(join_spec=keys, window_bounds=bounds)
        return IntervalJoinNode(**self.common(rel, node, lowering), interval_join_spec=spec)

    def distribute(self, rel: IntervalJoin, inputs: Sequence[Rel]) -> Rel:
        return by_join_keys(rel, inputs, rel.rest)

    def waits_for_watermarks(self, rel: IntervalJoin) -> bool:
        return rel.event_time


class LookupJoinOperator(Operator[LookupJoin], of=LookupJoin, node=LookupJoinNode):
    def describe(self, rel: LookupJoin, node: Physical, notation: Notation) -> list[str]:
        inputs, columns = field_names(rel.input), field_names(rel.table)
        keys = [f"{columns[f]}={_key_literal(c, notation)}" for f, c in rel.constants]
        keys += [f"{columns[f]}={inputs[k]}" for f, k in rel.keys]
        out = [
            f"table=[{rel.table.table.identifier.summary}]",
            f"joinType=[{JOIN_NAMES[rel.join_type]}]",
            f"lookup=[{', '.join(keys)}]",
        ]
        if rel.calc is not None and rel.calc.condition is not None:
            out.append(f"where=[{notation.expression(rel.calc.condition, columns)}]")
        terms = [*conjunctions(rel.before), *conjunctions(rel.rest)]
        if terms:
            both = unique_names([*inputs, *field_names(rel.lookup_result)])
            texts = [notation.expression(t, both) for t in terms]
            out.append(f"joinCondition=[{notation.conjunction(texts)}]")
        output_names = field_names(rel)
        if rel.calc is not None:  # with the names that it gives, whether the input has them or not
            texts = [notation.expression(e, columns) for e in rel.calc.exprs]
            output_names[len(inputs) :] = map(with_name, texts, field_names(rel.calc))
        out.append(f"select=[{', '.join(output_names)}]")
        if rel.retry is not None:
            out.append(f"retry=[{rel.retry.summary}]")
        if rel.materialize:
            out.append("upsertMaterialize=[true]")
        key = smallest_key(upsert_keys(rel.input))
        if key is not None:
            out.append(f"upsertKey=[[{', '.join(map(str, key))}]]")
        return out

    def lower(self, rel: LookupJoin, node: Physical, lowering: Lowering) -> ExecNode:
        keys = {f: LookupKey(type="FieldRef", index=k) for f, k in rel.keys}
        for f, constant in rel.constants:
            keys.setdefault(f, LookupKey(type="Constant", source_type=rel.table.types[f], literal=constant))
        calc, primary = rel.calc, rel.table.key
        return LookupJoinNode(
            **self.common(rel, node, lowering),
            join_type=rel.join_type,
            pre_filter_condition=rel.before,
            join_condition=rel.rest,
            temporal_table=TemporalTable(
                lookup_table_source=table_source(lowering, rel.table),
                output_type=row_type(list(rel.table.fields), nullable=False),
            ),
            lookup_keys={str(f): keys[f] for f in sorted(keys)},
            projection_on_temporal_table=None if calc is None else calc.exprs,
            filter_on_temporal_table=None if calc is None else calc.condition,
            lookup_key_contains_primary_key=primary is not None and set(primary) <= {f for f, _ in rel.keys},
            require_upsert_materialize=rel.materialize,
            retry_options=rel.retry,
            input_changelog_mode=changelog_mode(node.input),
            input_upsert_key=smallest_key(upsert_keys(rel.input)) or (),
            prefer_custom_shuffle=False,
        )

    def state_hints(self, rel: LookupJoin) -> Sequence[InputHint | None]:
        return (rel.hint,) if rel.materialize else ()

    def delete(self, rel: LookupJoin, node: Physical, required_kind: DeleteKind) -> Physical | None:
        return with_deletions(node, [deleting(node.input, "FULL_DELETE")], "FULL_DELETE")


def _key_literal(rex: Rex, notation: Notation) -> str:
    assert isinstance(rex, Literal)
    return charset(str(rex.value)) if rex.type.is_string else notation.expression(rex, ())
