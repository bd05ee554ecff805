"""Rows joined with the rows of a table function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

from stateplan.execnodes.errors import PlanError
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import ALWAYS, RexField
from stateplan.execnodes.node_text import joined_names, rex_text
from stateplan.execnodes.nodes.base import ExecNode, Stateless, field_types
from stateplan.execnodes.registry import exec_node
from stateplan.execnodes.rex import Call, Rex
from stateplan.execnodes.types import LogicalType
from stateplan.execnodes.zone import local_time_zone


class _Correlate(ExecNode):
    """What both correlates have in common."""

    join_type: Literal["INNER", "LEFT"]
    function_call: Annotated[RexField, Ref()]

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return (*field_types(inputs[0]), *field_types(self.function_call.type))

    def _condition(self) -> Rex | None:
        return None

    def translate(self, inputs: Sequence[LogicalType], session: Mapping[str, str]) -> Stateless:
        from stateplan.execnodes.runtime.transforms.table_functions import (
            REPLICATE_ROWS,
            UNNEST,
            CorrelateTransform,
            over_input,
        )

        call = over_input(self.function_call, inputs[0])
        if not isinstance(call, Call) or not (call.is_user_defined or call.name in (*UNNEST, REPLICATE_ROWS)):
            name = call.name if isinstance(call, Call) else type(call).__name__
            raise self.not_supported(f"the table function {name}")
        if call.type.root != "ROW" or not call.type.fields:
            raise PlanError("PLAN044")
        zone = local_time_zone(session)
        return Stateless((CorrelateTransform(inputs[0], call, self.join_type, self._condition(), zone, self.label),))

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        how = " or, without any, with NULLs" if self.join_type == "LEFT" else ""
        return f"joins each row with the rows of {rex_text(self.function_call, joined_names(inputs))}{how}"


@exec_node("correlate")
class Correlate(_Correlate):
    """Joins each row with the rows that a table function gives for it.

    .. code-block:: sql

        INSERT INTO words SELECT id, word FROM docs, LATERAL TABLE(split_words(body)) AS s(word)
    """

    condition: Annotated[RexField | None, ALWAYS] = None

    def _condition(self) -> Rex | None:
        return self.condition


@exec_node("python-correlate")
class PythonCorrelate(_Correlate):
    """Joins each row with the rows that a Python table function gives for it.

    .. code-block:: sql

        CREATE FUNCTION split_words AS 'text.split_words' LANGUAGE PYTHON;
        INSERT INTO words SELECT id, word FROM docs LEFT JOIN LATERAL TABLE(split_words(body)) AS s(word) ON TRUE
    """
