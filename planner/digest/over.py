"""The text by which Flink's plans describe OVER windows.

Source: Flink's ``OverAggregateUtil`` and the ``explainTerms`` of ``StreamPhysicalOverAggregate``.
"""

from __future__ import annotations

from stateplan.planner.algebra.over import OverAggregate
from stateplan.planner.algebra.relations import AggCall, field_names
from stateplan.planner.digest.expressions import expression, order_text
from stateplan.planner.digest.literals import charset
from stateplan.planner.physical import Physical


def over_aggregate(node: Physical) -> list[str]:
    """The arguments of an OverAggregate."""
    rel = node.rel
    assert isinstance(rel, OverAggregate)
    inputs = field_names(rel.input)
    names = [*inputs, *(charset(c.value) if c.type.is_string else expression(c, ()) for c in rel.constants)]

    def text(call: AggCall, name: str) -> str:
        arguments = ", ".join(names[a] for a in call.args) or "*"
        return f"{call.function}({'DISTINCT ' if call.distinct else ''}{arguments}) AS {name}"

    keys = ", ".join(inputs[k] for k in rel.partition)
    return [
        *([f"partitionBy=[{keys}]"] if keys else []),
        f"orderBy=[{order_text(rel.order, rel.input)}]",
        f"window=[ {rel.frame.text}]",
        f"select=[{', '.join([*inputs, *map(text, rel.calls, field_names(rel)[len(inputs) :])])}]",
    ]
