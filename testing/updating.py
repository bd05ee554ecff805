"""Writes what has happened into test files, in place of what was expected. Every other byte stays."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import write_whole
from stateplan.testing.blocks import NULL, split_cells
from stateplan.testing.checks import Verdict
from stateplan.testing.suite import FileOutcome, load


@dataclass(frozen=True)
class _Splice:
    """Lines ``first`` to ``last``, from 1, become others; ``last`` before ``first`` inserts them."""

    first: int
    last: int
    lines: tuple[str, ...]


def update_file(result: FileOutcome) -> int:
    """Writes the expectations of a file that do not hold; returns how many were written.

    An expectation above the first test belongs to all tests of the file. It is written only if all of them agree.
    """
    splices: dict[int, set[_Splice]] = {}
    for verdict in (v for outcome in result.outcomes for v in outcome.failures if v.actual is not None):
        splice = _splice(verdict)
        splices.setdefault(splice.first, set()).add(splice)
    lines_that_hold = {v.expect.line for outcome in result.outcomes for v in outcome.verdicts if v.holds}
    agreed = [min(some, key=lambda s: s.first) for some in splices.values() if len(some) == 1]
    lines_of = {_splice(v).first: v.expect.line for o in result.outcomes for v in o.failures if v.actual is not None}
    agreed = [splice for splice in agreed if lines_of[splice.first] not in lines_that_hold]
    if agreed:
        text = load(result.file).text
        write_whole(Path(result.file), splice_lines(text, agreed))
    return len(agreed)


def _splice(verdict: Verdict) -> _Splice:
    expect, lines = verdict.expect, tuple(verdict.actual or ())
    block = expect.block
    if block is None:
        return _Splice(expect.line, expect.line, lines)
    if block.form == "json":
        lines = tuple(_json_lines(lines, block.indent))
    elif block.form == "csv":
        lines = tuple(_csv_lines(lines, block.indent))
    return _Splice(block.first, block.last, lines)


def _rows(lines: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]]]:
    """The header, and kind and cells of each row, of the lines of a table."""
    cells = [(line[2:].split("|")[0].strip(), split_cells(line[line.index("|") + 1 : -1])) for line in lines]
    return (cells[0][1] if cells else []), cells[1:]


def _json_lines(lines: Sequence[str], indent: str) -> list[str]:
    header, rows = _rows(lines)
    out = []
    for kind, cells in rows:
        values = {name: _json_value(cell) for name, cell in zip(header, cells, strict=True)}
        body = "{" + ", ".join(f"{json.dumps(name)}: {value}" for name, value in values.items()) + "}"
        out.append(f"--{indent}{kind + ' ' if kind else ''}{body}")
    return out


def _json_value(cell: str) -> str:
    """A cell as JSON: as it is, if it is a value of JSON."""
    if cell == NULL:
        return "null"
    try:
        json.loads(cell)
    except ValueError:
        return json.dumps(cell, ensure_ascii=False)
    return cell


def _csv_lines(lines: Sequence[str], indent: str) -> list[str]:
    header, rows = _rows(lines)
    if not header:
        return []
    out = [f"--{indent}{_csv_line(header)}"]
    for kind, cells in rows:
        body = _csv_line(["" if cell == NULL else cell for cell in cells])
        out.append(f"--{indent}{kind + ' ' if kind else ''}{body}")
    return out


def _csv_line(cells: Sequence[str]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def splice_lines(text: str, splices: Sequence[_Splice]) -> str:
    """A text with other lines; all of its other lines and their ends stay."""
    lines = text.split("\n")
    for splice in sorted(splices, key=lambda s: -s.first):
        end = "\r" if lines and lines[max(0, splice.first - 2)].endswith("\r") else ""
        new = [line + end for line in splice.lines]
        lines[splice.first - 1 : splice.last] = new
    return "\n".join(lines)
