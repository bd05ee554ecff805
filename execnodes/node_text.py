"""What nodes do in words: row expressions, keys and TTLs as ``plan show`` and ``explain`` print them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stateplan.common.types import LogicalType
from stateplan.execnodes.specs import AggCall, JoinSpec
from stateplan.functions.rex import InputRef, Rex
from stateplan.functions.rex_text import field_name, rex_text


def field_names(row: LogicalType) -> tuple[str, ...]:
    """The names of a ROW's fields."""
    return tuple(f.name for f in row.fields)


def joined_names(rows: Iterable[LogicalType]) -> tuple[str, ...]:
    """The names of several inputs' fields, as a join's condition counts them."""
    return tuple(name for row in rows for name in field_names(row))


def names_text(indexes: Iterable[int], names: Sequence[str]) -> str:
    """The fields at ``indexes``: ``a, b``. A field without a name is ``$3``."""
    return ", ".join(field_name(i, names) for i in indexes)


def groups_text(keys: Iterable[int], names: Sequence[str]) -> str:
    """``each a, b``, or ``all rows`` without keys."""
    text = names_text(keys, names)
    return f"each {text}" if text else "all rows"


def projection_text(projection: Sequence[Rex], names: Sequence[str], output: LogicalType) -> str:
    """The expressions of output fields, each ``AS`` its field unless it is that field of the input."""
    texts = []
    for rex, field in zip(projection, output.fields, strict=False):
        text = rex_text(rex, names)
        texts.append(text if isinstance(rex, InputRef) and text == field.name else f"{text} AS {field.name}")
    return ", ".join(texts)


def agg_text(call: AggCall, names: Sequence[str]) -> str:
    """An aggregate call as SQL: ``COUNT(DISTINCT a) FILTER (WHERE b)``."""
    arguments = names_text(call.arg_list, names) or ("*" if call.function == "COUNT" else "")
    text = f"{call.function}({'DISTINCT ' if call.distinct and call.arg_list else ''}{arguments})"
    return text + (f" FILTER (WHERE {field_name(call.filter_arg, names)})" if call.filter_arg >= 0 else "")


def call_texts(calls: Sequence[AggCall], names: Sequence[str]) -> str:
    """Aggregate calls in words."""
    return ", ".join(agg_text(call, names) for call in calls) or "the distinct values"


def join_terms(spec: JoinSpec, inputs: Sequence[LogicalType], between: str = "") -> list[str]:
    """What rows that a join puts together meet: equal keys, ``between``, and the further condition."""
    left, right = (field_names(row) for row in inputs) if len(inputs) == 2 else ((), ())
    terms = [
        f"left.{names_text([a], left)} = right.{names_text([b], right)}"
        for a, b in zip(spec.left_keys, spec.right_keys, strict=True)
    ]
    terms += [between] if between else []
    if spec.non_equi_condition is not None:
        terms.append(rex_text(spec.non_equi_condition, joined_names(inputs)))
    return terms
