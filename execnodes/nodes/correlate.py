"""Rows joined with the rows of a table function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import ALWAYS, RexField, meaning_of
from stateplan.execnodes.node_text import joined_names
from stateplan.execnodes.nodes.base import ExecNode, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.functions.rex import Call, CorrelVariable, FieldAccess, Rex
from stateplan.functions.rex_text import rex_text


class _Correlate(ExecNode):
    """What both correlates have in common."""

    join_type: Literal["INNER", "LEFT"]
    function_call: Annotated[RexField, Ref()]

    def meaning(self) -> dict[str, Any]:
        values = super().meaning()
        return {**values, "functionCall": meaning_of(_nameless(self.function_call))}

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return (*field_types(inputs[0]), *field_types(self.function_call.type))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        otherwise_nulls = " or, without any, with NULLs" if self.join_type == "LEFT" else ""
        return f"joins each row with the rows of {rex_text(self.function_call, joined_names(inputs))}{otherwise_nulls}"


def _nameless(rex: Rex) -> Rex:
    """``rex`` without the number of the outer row, which depends on the statements before."""
    if isinstance(rex, CorrelVariable):
        return replace(rex, correl="$cor0")
    if isinstance(rex, FieldAccess):
        return replace(rex, expr=_nameless(rex.expr))
    if isinstance(rex, Call):
        return replace(rex, operands=tuple(map(_nameless, rex.operands)))
    return rex


@exec_node("correlate")
class Correlate(_Correlate):
    """Joins each row with the rows that a table function returns for it.

    .. code-block:: sql

        INSERT INTO words SELECT id, word FROM docs, LATERAL TABLE(split_words(body)) AS s(word)
    """

    condition: Annotated[RexField | None, ALWAYS] = None


@exec_node("python-correlate")
class PythonCorrelate(_Correlate):
    """Joins each row with the rows that a Python table function returns for it.

    .. code-block:: sql

        CREATE FUNCTION split_words AS 'text.split_words' LANGUAGE PYTHON;
        INSERT INTO words SELECT id, word FROM docs LEFT JOIN LATERAL TABLE(split_words(body)) AS s(word) ON TRUE
    """
