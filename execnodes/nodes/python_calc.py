"""Calls of scalar functions that are alone: of Python ones, and of asynchronous ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import RexField
from stateplan.execnodes.node_text import joined_names, projection_text
from stateplan.execnodes.nodes.base import ExecNode, projected_types
from stateplan.execnodes.registry import exec_node


class _FunctionCalc(ExecNode):
    """A projection without a condition."""

    MEANS: ClassVar[str]

    projection: Annotated[tuple[RexField, ...], Ref()]

    def computed_types(self, inputs: Sequence[LogicalType]) -> Sequence[LogicalType] | None:
        return projected_types(self.projection, inputs[0])

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        return f"computes {self.MEANS} {projection_text(self.projection, joined_names(inputs), self.output_type)}"


@exec_node("python-calc")
class PythonCalc(_FunctionCalc):
    """Calls Python functions for every row; its other fields are those of the input.

    .. code-block:: sql

        CREATE FUNCTION slug AS 'shop.slug' LANGUAGE PYTHON;
        INSERT INTO names SELECT id, slug(product) FROM orders
    """

    MEANS: ClassVar[str] = "in Python"


@exec_node("async-calc")
class AsyncCalc(_FunctionCalc):
    """Calls functions that Flink calls asynchronously; here those that are coroutines are awaited together.

    .. code-block:: sql

        INSERT INTO prices SELECT id, look_up(product) FROM orders
    """

    MEANS: ClassVar[str] = "by functions"


@exec_node("python-async-calc")
class PythonAsyncCalc(_FunctionCalc):
    """Calls a coroutine for every row, for many rows at the same time.

    .. code-block:: sql

        INSERT INTO prices SELECT id, look_up(product) FROM orders
    """

    MEANS: ClassVar[str] = "in Python"
