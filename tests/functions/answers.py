"""Reading the golden files: what Flink 2.3 answered for each expression over the rows of ``golden/input.json``.

``golden/<family>.txt`` holds lines ``expression => value | value | ... (type)``, one value per input row; for a line
that starts with WHERE, the ids of the rows that pass; ``!! message`` where Flink refused or failed; ``?`` where the
value depends on the clock. ``golden/rex.jsonl`` holds the row expression Flink wrote into its plan, its input
references counting the columns of ``FIELDS``.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from stateplan.common.changelog import column
from stateplan.common.types import LogicalType, parse_type
from stateplan.functions.rex import Rex, rex_from_json

_WIDE = Context(prec=60)

FOLDER = Path(__file__).parent / "golden"

FIELDS: list[tuple[str, LogicalType]] = [
    (name, parse_type(text))
    for name, text in (
        ("id", "INT NOT NULL"),
        ("b", "BOOLEAN"),
        ("ti", "TINYINT"),
        ("si", "SMALLINT"),
        ("i", "INT"),
        ("l", "BIGINT"),
        ("f", "FLOAT"),
        ("d", "DOUBLE"),
        ("dc", "DECIMAL(10, 2)"),
        ("dd", "DECIMAL(38, 18)"),
        ("de", "DECIMAL(5, 0)"),
        ("s", "STRING"),
        ("vc", "VARCHAR(10)"),
        ("ch", "CHAR(5)"),
        ("by", "BYTES"),
        ("dt", "DATE"),
        ("tm", "TIME(0)"),
        ("ts3", "TIMESTAMP(3)"),
        ("ts6", "TIMESTAMP(6)"),
        ("ts9", "TIMESTAMP(9)"),
        ("lz", "TIMESTAMP_LTZ(3)"),
        ("inn", "INT NOT NULL"),
        ("lnn", "BIGINT NOT NULL"),
        ("snn", "STRING NOT NULL"),
        ("dcn", "DECIMAL(10, 2) NOT NULL"),
        ("bn", "BOOLEAN NOT NULL"),
        ("arr", "ARRAY<INT>"),
        ("ars", "ARRAY<STRING>"),
        ("mp", "MAP<STRING, INT>"),
        ("rw", "ROW<x INT, y STRING>"),
        ("j", "STRING"),
    )
]
"""Columns of the table the expressions are over."""


@dataclass(frozen=True)
class Golden:
    """One expression and what Flink answered."""

    family: str
    expression: str
    values: tuple[str, ...]
    type: str | None
    error: str | None
    rex: Rex | None

    @property
    def is_filter(self) -> bool:
        return self.expression.startswith("WHERE ")

    @property
    def time_zone(self) -> str:
        return "America/New_York" if self.family == "zoned" else "UTC"

    def __str__(self) -> str:
        return f"{self.family}: {self.expression}"


_LINE = re.compile(r"(.*?) => (.*)")
_TYPED = re.compile(r"(.*) \(([A-Z].*)\)")


def _entry(family: str, line: str, rexes: dict[tuple[str, str], Any]) -> Golden:
    match = _LINE.fullmatch(line)
    assert match, line
    expression, rest = match.groups()
    if rest.startswith("!! ") and not _TYPED.fullmatch(rest):
        return Golden(family, expression, (), None, rest[3:], None)
    typed = _TYPED.fullmatch(rest)
    assert typed, line
    raw = rexes.get((family, expression))
    rex = rex_from_json(raw) if raw is not None else None
    if typed[1].startswith("!! "):
        return Golden(family, expression, (), typed[2], typed[1][3:], rex)
    if expression.startswith("WHERE "):
        return Golden(family, expression, tuple(typed[1].split(", ")) if typed[1] else (), typed[2], None, rex)
    return Golden(family, expression, tuple(_split(typed[1])), typed[2], None, rex)


def _split(text: str) -> Iterator[str]:
    """The values between ``" | "``, texts in double quotes kept whole."""
    for match in re.finditer(r'((?:"(?:[^"\\]|\\.)*"|(?! \| ).)*)(?: \| |$)', text):
        if match.start() < len(text) or match[1]:
            yield match[1]
        if match.end() == len(text):
            return


@cache
def cases() -> tuple[Golden, ...]:
    """All golden expressions."""
    rexes = {}
    for line in (FOLDER / "rex.jsonl").read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        rexes[entry["family"], entry["expression"]] = entry["rex"]
    return tuple(
        _entry(path.stem, line, rexes)
        for path in sorted(FOLDER.glob("*.txt"))
        for line in path.read_text(encoding="utf-8").splitlines()
    )


def _input(t: LogicalType, value: Any) -> Any:
    if value is None:
        return None
    readers = {
        "DATE": dt.date.fromisoformat,
        "TIME_WITHOUT_TIME_ZONE": dt.time.fromisoformat,
        "DECIMAL": lambda v: Decimal(str(v)).quantize(Decimal(1).scaleb(-(t.scale or 0)), context=_WIDE),
        "VARBINARY": bytes.fromhex,
        "MAP": lambda v: [{"key": k, "value": x} for k, x in v.items()],
        "TIMESTAMP_WITH_LOCAL_TIME_ZONE": lambda v: dt.datetime.fromisoformat(v.replace(" ", "T")),
        "TIMESTAMP_WITHOUT_TIME_ZONE": lambda v: _moment(t, v),
    }
    reader = readers.get(t.root)
    return value if reader is None else reader(value)


def _moment(t: LogicalType, text: str) -> Any:
    main, _, fraction = text.partition(".")
    base = dt.datetime.fromisoformat(main)
    nanos = int(fraction.ljust(9, "0")) if fraction else 0
    if t.time_unit() == "ns":
        delta = base - dt.datetime(1970, 1, 1)
        return (delta.days * 86_400 + delta.seconds) * 10**9 + nanos
    return base + dt.timedelta(microseconds=nanos // 1000)


@cache
def frame() -> pl.DataFrame:
    """The input rows, columns c0, c1, ..."""
    lines = (FOLDER / "input.json").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line, parse_float=Decimal) for line in lines]
    series = []
    for index, (name, t) in enumerate(FIELDS):
        values = [_input(t, row.get(name)) for row in rows]
        if t.root in ("FLOAT", "DOUBLE"):
            values = [None if v is None else float(v) for v in values]
        series.append(pl.Series(column(index), values, dtype=t.polars()))
    return pl.DataFrame(series)
