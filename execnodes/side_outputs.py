"""Side outputs: rows that operators drop go to a table of their own, instead of being counted alone.

In a plan, a side output is a sink that reads no rows: ``VALUES`` without a row, and a sink whose ``stateplan`` says
which rows go there besides. Flink loads such a plan and leaves the table empty.

Source: the term is Flink's, of ``OutputTag`` and ``sideOutputLateData`` of its DataStream API.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stateplan.common.errors import OptionError, Place, nearest
from stateplan.common.types import BIGINT, INSTANT, INT, STRING, LogicalType
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.nodes.window_join import WindowJoin
from stateplan.execnodes.nodes.window_table_function import WindowTableFunction
from stateplan.execnodes.windows import SessionWindow, Windowing

LATE_ROWS = "late-rows.table"
"""The option of the session."""

KEY = "sideOutput"
"""The key of ``stateplan`` of a sink that says which rows it gets."""

LATE = "late-rows"
"""Its value for rows that arrived after the watermark."""

LATE_OF = "late-rows of "
"""How its value begins for late rows of the operators whose :data:`TABLES` name what follows."""

TABLES = "lateRows"
"""The key of ``stateplan`` of an operator that says where its late rows go instead: per input a name, or null."""

ERRORS = "parse-errors of "
"""How its value begins for input that the format of a table skips; the name of the table follows."""


LATE_COLUMNS: Mapping[str, LogicalType] = {
    "operator": STRING,
    "input": INT,
    "row_time": INSTANT,
    "watermark_time": INSTANT,
    "row_kind": STRING,
    "row_json": STRING,
}
"""The columns that a table for late rows may have, by name."""

ERROR_COLUMNS: Mapping[str, LogicalType] = {
    "source_table": STRING,
    "error_text": STRING,
    "message_text": STRING,
    "message_bytes": LogicalType("VARBINARY", length=2147483647),
    "file_path": STRING,
    "line_number": BIGINT,
    "topic_name": STRING,
    "partition_number": INT,
    "offset_number": BIGINT,
}
"""The columns that a table for skipped input may have, by name."""


def columns_of(kind: str) -> Mapping[str, LogicalType]:
    """The columns that a table for a side output may have, by name."""
    return LATE_COLUMNS if is_late(kind) else ERROR_COLUMNS


def is_late(kind: str) -> bool:
    """Whether a side output is one of late rows."""
    return kind == LATE or kind.startswith(LATE_OF)


def check_columns(kind: str, table: str, fields: Iterable[tuple[str, LogicalType]], place: Place | None = None) -> None:
    """Whether the rows of a side output fit into a table. Raises OptionError OPT008.

    Args:
        kind: the kind of the side output.
        table: its name, for the message.
        fields: name and type of its columns.
        place: where the table is named.
    """
    own_columns = columns_of(kind)
    for name, column_type in fields:
        own_type = own_columns.get(name)
        if own_type is None:
            problem, hint = f"it has a column '{name}'", nearest(name, own_columns)
        elif column_type != own_type:
            problem, hint = f"its column '{name}' is {column_type.summary()}", f"{name} {own_type.summary()}"
        else:
            continue
        rows = "late rows" if is_late(kind) else "invalid input"
        expected = ", ".join(f"{column} {t.summary()}" for column, t in own_columns.items())
        raise OptionError("OPT008", what=rows, table=table, problem=problem, expected=expected, hint=hint, place=place)


def side_output(node: ExecNode) -> str | None:
    """Which rows a sink gets besides those of its input; None for a sink without a side output."""
    return (node.stateplan or {}).get(KEY)


def late_tables(names: Sequence[str | None], inputs: int) -> dict[str, list[str | None]]:
    """What the ``stateplan`` of an operator says of its late rows: nothing where hints do not.

    Args:
        names: the names of the tables, per input, or one for all.
        inputs: how many it has.
    """
    tables = list(names) if len(names) == inputs else list(names[:1]) * inputs
    return {TABLES: tables} if any(tables) else {}


def late_table(node: ExecNode, number: int) -> str | None:
    """The name of the table that a hint gives for the late rows of an input of an operator."""
    tables = (node.stateplan or {}).get(TABLES) or ()
    return tables[number] if number < len(tables) else None


def windowing_of(node: ExecNode) -> Windowing | None:
    """The windows that an operator makes, or works on; None for one without. Of a join, those of its left input."""
    if isinstance(node, WindowJoin):
        return node.left_windowing
    windowing: Windowing | None = vars(node).get("windowing")
    return windowing


def may_drop(node: ExecNode, inputs: Sequence[ExecNode]) -> bool:
    """Whether an operator may drop late rows."""
    windowing = windowing_of(node)
    if isinstance(node, WindowTableFunction) and not isinstance(node.windowing.window, SessionWindow):
        return False
    if windowing is not None:
        timed = bool(windowing.is_rowtime)
    else:
        timed = any(f.type.kind == "ROWTIME" for source in inputs for f in source.output_type.fields)
    return node.DROPS_LATE_ROWS and timed
