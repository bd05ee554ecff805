"""The rows below a directive: a table of cells, JSON objects, CSV, or VALUES."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from typing import Any

from stateplan.common.errors import Place, StateplanError
from stateplan.testing.story import Block, Form, Row

_TABLE_ROW = re.compile(r"(\s*)(?:(\+I|-U|\+U|-D)\s+)?\|(.*)\|\s*")
_KIND = re.compile(r"\s*(?:(\+I|-U|\+U|-D)\s+)?(.*)", re.S)

NULL = "NULL"
"""The cell that is NULL. The text NULL is written in double quotes."""


def is_table_row(text: str) -> bool:
    """Whether a comment is a row of a table of cells."""
    return _TABLE_ROW.fullmatch(text) is not None


def read_block(form: Form, lines: Sequence[str], first: int, file: str) -> Block:
    """The rows of a block.

    Args:
        form: how they are written.
        lines: the comments, without ``--``.
        first: the number of the first line.
        file: for errors.

    Raises:
        StateplanError: TEST002.
    """
    last = first + len(lines) - 1
    if form == "table":
        return _table(lines, first, last, file)
    if form == "json":
        return _json(lines, first, last, file)
    if form == "csv":
        return _csv(lines, first, last, file)
    return Block("values", (), (), first, last, sql="\n".join(lines))


def _fail(problem: str, file: str, line: int, expected: str | None = None) -> StateplanError:
    return StateplanError("TEST002", problem=problem, place=Place(file=file, line=line), expected=expected)


def split_cells(text: str) -> list[str]:
    r"""The cells of a row between its first and last bar. A bar in a cell is written ``\|``."""
    return [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", text)]


def _table(lines: Sequence[str], first: int, last: int, file: str) -> Block:
    columns: tuple[str, ...] = ()
    rows: list[Row] = []
    indent = "   "
    for number, line in enumerate(lines, first):
        match = _TABLE_ROW.fullmatch(line)
        if match is None:
            raise _fail(f"'{line.strip()}' is not a row of the table", file, number, "cells between bars: | a | b |")
        cells = split_cells(match[3])
        if number == first:
            if match[2] is not None:
                raise _fail("the table has no header", file, number, "a first line with the names of its columns")
            columns, indent = tuple(cells), match[1]
            continue
        if len(cells) != len(columns):
            problem = f"the row has {len(cells)} cells, and the header has {len(columns)}"
            raise _fail(problem, file, number)
        rows.append(Row(match[2] or "+I", tuple(None if c == NULL else c for c in cells), number))
    kinds = any(_TABLE_ROW.fullmatch(line)[2] for line in lines[1:])  # type: ignore[index] # all lines match
    return Block("table", columns, tuple(rows), first, last, indent[:-3] if kinds and len(indent) > 3 else indent)


def _json(lines: Sequence[str], first: int, last: int, file: str) -> Block:
    objects: list[tuple[str, dict[str, Any], int]] = []
    for number, line in enumerate(lines, first):
        match = _KIND.fullmatch(line)
        assert match is not None
        try:
            value = json.loads(match[2], parse_float=_Number, parse_int=_Number)
        except ValueError:
            raise _fail(f"'{match[2].strip()}' is not a JSON object", file, number) from None
        if not isinstance(value, dict):
            raise _fail(f"'{match[2].strip()}' is not a JSON object", file, number)
        objects.append((match[1] or "+I", value, number))
    columns = tuple(dict.fromkeys(name for _, value, _ in objects for name in value))
    rows = [Row(kind, tuple(_cell(value.get(c)) for c in columns), number) for kind, value, number in objects]
    return Block("json", columns, tuple(rows), first, last)


class _Number(str):
    """A number as it is written."""

    __slots__ = ()


def _cell(value: Any) -> str | None:
    if value is None:
        return None
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return _dumps(value)


def _dumps(value: Any) -> str:
    """JSON with numbers as they were written."""
    if isinstance(value, _Number):
        return str(value)
    if isinstance(value, dict):
        items = (f"{json.dumps(name, ensure_ascii=False)}: {_dumps(part)}" for name, part in value.items())
        return "{" + ", ".join(items) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_dumps, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _csv(lines: Sequence[str], first: int, last: int, file: str) -> Block:
    if not lines:
        raise _fail("the CSV has no header", file, first - 1, "a first line with the names of its columns")
    columns = tuple(name.strip() for name in next(csv.reader([lines[0].strip()])))
    rows = []
    for number, line in enumerate(lines[1:], first + 1):
        match = _KIND.fullmatch(line)
        assert match is not None
        cells = next(csv.reader([match[2].strip()]), [])
        if len(cells) != len(columns):
            raise _fail(f"the row has {len(cells)} cells, and the header has {len(columns)}", file, number)
        rows.append(Row(match[1] or "+I", tuple(None if c in ("", NULL) else c for c in cells), number))
    return Block("csv", columns, tuple(rows), first, last)
