"""The texts by which Flink's plans describe window table functions and aggregates of windows.

Source: Flink's ``StreamPhysicalWindowTableFunction``, ``StreamPhysicalWindowAggregateBase`` and
``RelExplainUtil.streamWindowAggregationToString``.
"""

from __future__ import annotations

from collections.abc import Sequence

from stateplan.planner.algebra.relations import field_names, unique_names
from stateplan.planner.algebra.windows import (
    GlobalWindowAggregate,
    LocalWindowAggregate,
    Property,
    WindowAggregate,
    WindowJoin,
    WindowTable,
)
from stateplan.planner.digest.expressions import JOIN_NAMES, call_text, expression
from stateplan.planner.digest.phased import accumulators, grouped, merged
from stateplan.planner.physical import Physical

_PROPERTIES = {"WindowStart": "start", "WindowEnd": "end", "Rowtime": "rowtime", "Proctime": "proctime"}


def window_table(node: Physical) -> list[str]:
    """The arguments of a WindowTableFunction."""
    rel = node.rel
    assert isinstance(rel, WindowTable)
    return [f"window=[{rel.position.text(field_names(rel.input))}]"]


def window_aggregate(node: Physical) -> list[str]:
    """The arguments of a WindowAggregate."""
    rel = node.rel
    assert isinstance(rel, WindowAggregate)
    names = field_names(rel.input)
    retract = not node.input.is_insert_only
    texts = [call_text(c, names, retract) for c in rel.calls]
    return _arguments(rel.group, node, [names[g] for g in rel.group], [*texts, *_told(rel.properties)])


def local_window_aggregate(node: Physical) -> list[str]:
    """The arguments of a LocalWindowAggregate."""
    rel = node.rel
    assert isinstance(rel, LocalWindowAggregate)
    parts = [field_names(rel.input)[g] for g in rel.group]
    parts += accumulators(rel.kept, rel.input)
    parts.append(f"slice_end('w$) AS {field_names(rel)[-1]}")
    window = f"window=[{rel.position.text(field_names(rel.input))}]"
    return [*grouped(rel.group, rel.input, ""), window, f"select=[{', '.join(parts)}]"]


def global_window_aggregate(node: Physical) -> list[str]:
    """The arguments of a GlobalWindowAggregate. The number of rows of hopping windows is no field of the output, but it
    has a text, so that Flink names what comes behind it by the field before."""
    rel = node.rel
    assert isinstance(rel, GlobalWindowAggregate)
    below = rel.input.inputs[0]
    assert isinstance(below, LocalWindowAggregate)
    keys = field_names(rel.input)[: len(rel.group)]
    return _arguments(rel.group, node, keys, [*map(merged, below.kept.calls), *_told(rel.original.properties)])


def window_join(node: Physical) -> list[str]:
    """The arguments of a WindowJoin."""
    rel = node.rel
    assert isinstance(rel, WindowJoin)
    both = unique_names([*field_names(rel.left), *field_names(rel.right)])
    return [
        f"leftWindow=[{rel.left_position.text(field_names(rel.left))}]",
        f"rightWindow=[{rel.right_position.text(field_names(rel.right))}]",
        f"joinType=[{JOIN_NAMES[rel.join_type]}]",
        f"where=[{expression(rel.condition, both)}]",
        f"select=[{', '.join(field_names(rel))}]",
    ]


def _told(properties: Sequence[Property]) -> list[str]:
    return [f"{_PROPERTIES[kind]}('w$)" for _, kind in properties]


def _arguments(group: Sequence[int], node: Physical, keys: Sequence[str], texts: Sequence[str]) -> list[str]:
    rel = node.rel
    assert isinstance(rel, (WindowAggregate, GlobalWindowAggregate))
    outputs = field_names(rel)[len(group) :]
    parts = [*keys, *(f"{text} AS {name}" for text, name in zip(texts, outputs, strict=False))]
    window = f"window=[{rel.position.text(field_names(rel.input))}]"
    return [*grouped(group, rel.input, ""), window, f"select=[{', '.join(parts)}]"]
