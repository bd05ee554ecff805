"""Flink's results of DDL statements, and ours in the same form."""

from __future__ import annotations

from pathlib import Path

from stateplan.session.results import ResultKind, TableResult

FLINK = Path(__file__).with_name("flink_ddl.txt")


def shown(result: TableResult) -> str:
    """A result as the reference prints it."""
    if result.kind is ResultKind.SUCCESS:
        return "OK"
    if len(result.columns) == 1:
        return "\n".join(str(row[0]) for row in result.rows)
    cells = ([{None: "null", True: "true", False: "false"}.get(v, v) for v in row] for row in result.rows)
    return "\n".join(f"+I[{', '.join(str(v) for v in row)}]" for row in cells)
