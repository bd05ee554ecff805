"""Watermarks of a table, made behind its source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

from stateplan.common.types import LogicalType
from stateplan.execnodes.field_refs import Ref
from stateplan.execnodes.model import Index, RexField
from stateplan.execnodes.node_text import field_names, joined_names, names_text
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.registry import exec_node
from stateplan.functions.rex_text import rex_text


@exec_node("watermark-assigner")
class WatermarkAssigner(ExecNode):
    """Makes a timestamp the event time of the rows, and says how far event time has advanced.

    .. code-block:: sql

        CREATE TABLE orders (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
        WITH ('connector' = 'filesystem', 'path' = '/data/orders', 'format' = 'json');
        INSERT INTO late SELECT id, ts FROM orders
    """

    KEEPS_FIELDS: ClassVar[bool] = True
    PASSES_ROWS: ClassVar[bool] = True
    FORWARDS_ROWS: ClassVar[bool] = True

    watermark_expr: Annotated[RexField, Ref()]
    rowtime_field_index: Annotated[Index, Ref()]

    def describe(self, inputs: Sequence[LogicalType] = ()) -> str:
        rowtime = names_text([self.rowtime_field_index], field_names(inputs[0]) if inputs else ())
        watermark = rex_text(self.watermark_expr, joined_names(inputs))
        return f"takes {rowtime} as event time, with the watermark {watermark}"
