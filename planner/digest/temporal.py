"""The texts by which Flink's plans describe operators about time.

Source: Flink's ``StreamPhysicalTemporalJoin``, ``StreamPhysicalIntervalJoin``, ``CommonPhysicalLookupJoin`` and
``WatermarkAssigner``.
"""

from __future__ import annotations

from collections.abc import Iterable

from stateplan.execnodes.rex import InputRef, Literal, Rex
from stateplan.planner.algebra.relations import field_names, unique_names
from stateplan.planner.algebra.temporal import IntervalJoin, LookupJoin, TemporalJoin, WatermarkAssigner
from stateplan.planner.digest.calcite_types import conjunction
from stateplan.planner.digest.expressions import JOIN_NAMES, expression
from stateplan.planner.digest.literals import charset
from stateplan.planner.expressions.ops import conjunctions
from stateplan.planner.physical import Physical


def temporal_join(node: Physical) -> list[str]:
    """The arguments of a TemporalJoin."""
    from stateplan.planner.algebra.join_keys import equi_keys

    rel = node.rel
    assert isinstance(rel, TemporalJoin) and rel.right_time is not None
    both = unique_names([*field_names(rel.left), *field_names(rel.right)])
    width = rel.left.width
    pairs = equi_keys(rel.condition, width)

    def named(what: str, keys: Iterable[int]) -> str:
        return f"__TEMPORAL_JOIN_{what}({', '.join(both[k] for k in keys)})"

    keys = [
        named("CONDITION_PRIMARY_KEY", (width + k for k in rel.primary_key)),
        named("LEFT_KEY", (k for k, _ in pairs)),
        named("RIGHT_KEY", (width + k for _, k in pairs)),
    ]
    times = [both[rel.left_time], both[width + rel.right_time]]
    terms = [expression(t, both) for t in conjunctions(rel.condition)]
    terms.append(f"__TEMPORAL_JOIN_CONDITION({', '.join([*times, *keys])})")
    return [
        f"joinType=[{JOIN_NAMES[rel.join_type]}]",
        f"where=[{conjunction(terms)}]",
        f"select=[{', '.join(field_names(rel))}]",
    ]


def interval_join(node: Physical) -> list[str]:
    """The arguments of an IntervalJoin."""
    rel = node.rel
    assert isinstance(rel, IntervalJoin)
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


def lookup_join(node: Physical) -> list[str]:
    """The arguments of a LookupJoin."""
    from stateplan.planner.metadata.unique_keys import smallest_key, upsert_keys

    rel = node.rel
    assert isinstance(rel, LookupJoin)
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


def _key_literal(rex: Rex) -> str:
    assert isinstance(rex, Literal)
    return charset(str(rex.value)) if rex.type.is_string else expression(rex, ())


def watermark_assigner(node: Physical) -> list[str]:
    """The arguments of a WatermarkAssigner."""
    rel = node.rel
    assert isinstance(rel, WatermarkAssigner)
    names = field_names(rel)
    return [f"rowtime=[{names[rel.rowtime]}]", f"watermark=[{expression(rel.watermark, names)}]"]
