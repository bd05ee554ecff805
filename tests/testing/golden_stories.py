"""Golden cases as test files of ``stateplan test``: the input of Flink's jobs, and the tables that they left.

``python -m tests.testing.golden_stories`` writes ``tests/testing/golden`` anew from the reference material. Rows
arrive in one micro-batch, except where the case has an order. What is expected is what Flink has left, never what our
engine leaves.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from stateplan.common.types import LogicalType
from stateplan.testing.checks import table_lines
from stateplan.testing.rows import Change
from stateplan.testing.story import Sql
from stateplan.testing.story_plan import Preparation
from tests.support.cases import IN_SCOPE, SESSION, Case

CASES = Path(__file__).resolve().parents[3] / "shared" / "flink" / "cases"
FOLDER = Path(__file__).resolve().parent / "golden"

ROW_BY_ROW = ("dedup_keep_first_rowtime", "window_tvf_tumble")
"""Cases with late rows: each row is a micro-batch, so that the watermark has passed when the late row arrives."""

_TABLE = re.compile(r"CREATE TABLE (\w+)[^;]*?'path'='\$\{DIR\}/(\w+\.json)'[^;]*;", re.S)


def story_of(case: Case) -> str:
    """The test file of a case. Raises ValueError, for a case whose rows have another form."""
    script = case.text("script.sql").replace("${DIR}", "/data")
    script = "\n".join(line for line in script.splitlines() if not line.startswith("--"))
    settings = "".join(f"SET '{key}' = '{text}';\n" for key, text in SESSION.items())
    session = Preparation([Sql(settings + script, 1, "script.sql")], {})
    outputs = session.plan.outputs()
    lines = [
        f"-- Flink's golden case {case.folder.name}.",
        "",
        *settings.splitlines(),
        *script.strip().splitlines(),
        "",
    ]
    lines += ["-- test: the tables are those of Flink", *_arrivals(case), "-- end"]
    if len(outputs) > 1:
        raise ValueError("several tables")
    (output,) = outputs.values()
    rows = [Change("+I", _cells(row, [kind for _, kind in output.fields.fields])) for row in case.materialized]
    lines.append("-- expect table")
    if rows:
        lines += [f"--   {line}" for line in table_lines(output.fields.names, rows, False)]
    return "\n".join(lines) + "\n"


def _arrivals(case: Case) -> Iterator[str]:
    """The rows of the tables; rows between two sleeps arrive together."""
    tables = dict(_TABLE.findall(case.text("script.sql")))
    lines = {t: iter(case.text(f).splitlines()) for t, f in tables.items()}
    order = case.folder / "order.txt"
    pending: dict[str, list[str]] = {t: [] for t in tables}
    for entry in order.read_text().split("\n") if order.exists() else ():
        if entry.startswith("sleep "):
            yield from _given(pending)
            yield f"-- advance {entry.removeprefix('sleep ')} ms"
            pending = {t: [] for t in tables}
        elif entry.strip():
            if any(rows for table, rows in pending.items() if table != entry.strip()):
                yield from _given(pending)
                yield "-- advance 20 ms"
                pending = {t: [] for t in tables}
            pending[entry.strip()].append(next(lines[entry.strip()]))
    for table, rest in lines.items():
        for line in rest:
            pending[table].append(line)
            if case.folder.name in ROW_BY_ROW:
                yield from _given(pending)
                yield "-- advance 20 ms"
                pending = {t: [] for t in tables}
    yield from _given(pending)


def _given(pending: dict[str, list[str]]) -> Iterator[str]:
    for table, texts in pending.items():
        changes = [change for text in texts for change in _changes(json.loads(text))]
        if not changes:
            continue
        columns = list(dict.fromkeys(name for _, row in changes for name in row))
        rows = [Change(kind, tuple(_cell(row.get(name)) for name in columns)) for kind, row in changes]
        yield f"-- given {table}"
        has_kinds = any(kind != "+I" for kind, _ in changes)
        yield from (f"--   {line}" for line in table_lines(columns, rows, has_kinds))


def _changes(value: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The changes of a line: a row, an event of Debezium, or a row with its kind."""
    if "op" in value and ("before" in value or "after" in value):
        before, after = value.get("before"), value.get("after")
        if before is not None:
            yield ("-U" if after is not None else "-D"), before
        if after is not None:
            yield ("+U" if before is not None else "+I"), after
        return
    kind = str(value.pop("_op", "+I"))
    yield kind, value


def _cell(value: Any) -> str | None:
    return None if value is None else value if isinstance(value, str) else json.dumps(value)


def _cells(row: str, types: list[LogicalType]) -> tuple[str | None, ...]:
    """The cells of a row as Flink prints it."""
    values = row.removeprefix("[").removesuffix("]").split(", ")
    if len(values) != len(types):
        raise ValueError(row)
    return tuple(_value(text, kind) for text, kind in zip(values, types, strict=True))


def _value(text: str, kind: LogicalType) -> str | None:
    if text == "null":
        return None
    if kind.root.startswith("TIMESTAMP"):
        text = text.replace("T", " ").removesuffix("Z")
        return text if text.count(":") > 1 else f"{text}:00"
    return text


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for name in IN_SCOPE:
        try:
            text = story_of(Case(CASES / name))
        except ValueError as error:
            print(f"{name}: not written: {error}", file=sys.stderr)
            continue
        (FOLDER / f"{name}.sql").write_text(text)


if __name__ == "__main__":
    main()
