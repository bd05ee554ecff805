"""What happens in a test, in order: rows that arrive together, actions, and expectations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from stateplan.common.changelog import RowKind
from stateplan.common.errors import StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.testing.rows import Change, Fields
from stateplan.testing.story import Action, Block, Case, Expect, GivenRows, Row
from stateplan.testing.story_plan import Input, Preparation, file_of

_KINDS = {kind.short: kind for kind in RowKind}


@dataclass(frozen=True)
class Arrival:
    """Rows that arrive in one micro-batch.

    Attributes:
        at: names the micro-batch in the files of the tables; ascending.
        rows: table and row, a line of ``op-json``, in the order of the file.
        line: the line of the first of them in the test file.
    """

    at: int
    rows: tuple[tuple[str, bytes], ...]
    line: int


Moment: TypeAlias = Arrival | Action | Expect


def schedule(case: Case, inputs: Mapping[str, Input], session: Preparation) -> list[Moment]:
    """What happens in a test. Blocks of rows that follow each other arrive in one micro-batch.

    Raises:
        StateplanError: TEST002, TEST003, TEST004, for rows that their table cannot have.
    """
    moments: list[Moment] = []
    givens: list[GivenRows] = []
    rows_of: dict[str, list[_Line]] = {}
    count = 0

    def arrive() -> None:
        nonlocal count
        if givens:
            rows = [row for step in givens for row in _rows(case, step, inputs, session)]
            for row in rows:
                rows_of.setdefault(row.table, []).append(row)
            moments.append(Arrival(count, tuple((row.table, row.text) for row in rows), givens[0].line))
            count += 1
            givens.clear()

    for step in case.steps:
        if isinstance(step, GivenRows):
            givens.append(step)
            continue
        arrive()
        moments.append(step)
    arrive()
    for table, rows in rows_of.items():
        inputs[table].fields.checked_frame([row.text for row in rows], [row.line for row in rows], case.file)
    return moments


class _Line(NamedTuple):
    """A row: its table, its text as ``op-json``, and its line in the test file."""

    table: str
    text: bytes
    line: int


def _rows(case: Case, step: GivenRows, inputs: Mapping[str, Input], session: Preparation) -> list[_Line]:
    table = table_named(step.table, inputs, case, step.line, "read a table")
    mine = inputs[table]
    block = _evaluate(step.block, mine, session, case) if step.block.form == "values" else step.block
    for row in block.rows:
        if _KINDS[row.kind] not in mine.mode:
            place = case.place(row.line)
            raise StateplanError("TEST004", kind=row.kind, name=table, kinds=mine.kinds, place=place)
    lines = mine.fields.json_lines(block, case.file, table)
    return [_Line(table, text, row.line) for text, row in zip(lines, block.rows, strict=True)]


def table_named(name: str, tables: Iterable[str], case: Case, line: int, verb: str) -> str:
    """The table that a directive names, in any case of letters. Raises StateplanError TEST003."""
    names = list(tables)
    match = next((n for n in names if n == name), None) or next((n for n in names if n.lower() == name.lower()), None)
    if match is None:
        raise StateplanError(
            "TEST003",
            verb=verb,
            name=name,
            place=case.place(line),
            expected=", ".join(names) or "no table",
            hint=nearest(name, names),
        )
    return match


def output_named(expect: Expect, outputs: Iterable[str], case: Case) -> str:
    """The table that an expectation is about. Raises StateplanError TEST003, TEST010."""
    names = list(outputs)
    if expect.name:
        return table_named(expect.name, names, case, expect.line, "write a table")
    if len(names) > 1:
        place = case.place(expect.line)
        raise StateplanError("TEST010", text=expect.text, name=names[0], place=place, expected=", ".join(names))
    return names[0]


def _evaluate(block: Block, table: Input, session: Preparation, case: Case) -> Block:
    """A block of VALUES as cells. Raises StateplanError, with the line of the block."""
    changes = values_of(block, table.fields, session, case)
    columns = table.fields.names
    return Block("values", columns, tuple(Row("+I", c.cells, block.first) for c in changes), block.first, block.last)


def values_of(block: Block, fields: Fields, session: Preparation, case: Case) -> list[Change]:
    """The rows of VALUES, as texts of the types of columns. Raises StateplanError."""
    names = ", ".join(f"c{i}" for i in range(len(fields.fields)))
    casts = ", ".join(f"CAST(c{i} AS {kind.summary()})" for i, (_, kind) in enumerate(fields.nullable))
    sql = block.sql.strip().rstrip(";")
    try:
        frame = session.environment.sql_query(f"SELECT {casts} FROM ({sql}) AS t ({names})").to_polars()
    except StateplanError as error:
        error.place = case.place(block.first)
        raise
    return fields.changes([frame.rename({old: f"c{i}" for i, old in enumerate(frame.columns)})])


def write_tables(folder: Path, inputs: Iterable[str], moments: Sequence[Moment]) -> None:
    """Writes the rows of all tables to files, each with the micro-batch in which it arrives."""
    lines: dict[str, list[bytes]] = {name: [] for name in inputs}
    for moment in moments:
        if isinstance(moment, Arrival):
            for table, line in moment.rows:
                lines.setdefault(table, []).append(stamped(line, moment.at))
    for name, rows in lines.items():
        file_of(folder, name).write_bytes(b"".join(rows))


def stamped(line: bytes, at: int) -> bytes:
    """A row with the instant of its arrival."""
    return line[:-1] + f', "@at": {json.dumps(at)}}}\n'.encode()
