"""``stateplan state read``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stateplan.cli.console import Console
from stateplan.cli.options import (
    AtOption,
    BatchOption,
    CheckpointArgument,
    DebugOption,
    Format,
    QuietOption,
    SettingsOption,
    extensions,
    format_of,
    instant,
    output_option,
    run,
    settings,
)

_TEXT_ROWS = 100
"""Default limit of a text table."""


class RowFormat(StrEnum):
    """How rows of state are written."""

    TEXT = "text"
    JSON = "json"
    PARQUET = "parquet"


_BY_EXTENSION = {
    ".txt": RowFormat.TEXT,
    ".parquet": RowFormat.PARQUET,
    ".json": RowFormat.JSON,
    ".jsonl": RowFormat.JSON,
    ".ndjson": RowFormat.JSON,
}


def read(
    checkpoint: CheckpointArgument,
    pairs: SettingsOption,
    selector: Annotated[
        str | None,
        typer.Argument(metavar="SELECTOR", help="State to read, such as 'join.left', 'deduplicate' or '5'."),
    ] = None,
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", "-k", metavar="COLUMN=VALUE", help="Read only rows with this value; NULL matches null. Repeatable."
        ),
    ] = None,
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="Table of the state, as listed by 'state show'."),
    ] = None,
    expired: Annotated[
        bool, typer.Option("--expired", help="Include expired rows that have not been removed yet.")
    ] = False,
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="ROWS",
            min=0,
            help=f"Maximum number of rows, 0 for all. Default: {_TEXT_ROWS} for a text table.",
        ),
    ] = None,
    kind: Annotated[
        RowFormat | None,
        typer.Option(
            "--format",
            help="Text table, JSON lines or Parquet. Default: by the file extension of --output, otherwise text.",
        ),
    ] = None,
    target: Annotated[
        str | None,
        output_option(f"Write the rows to a file, which ends in {extensions(_BY_EXTENSION)}."),
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --output file.")] = False,
    batch: BatchOption = None,
    at: AtOption = None,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Read the rows of a state, with their last access and expiry times."""
    moment = instant(at)
    if kind is RowFormat.PARQUET and target is None:
        raise typer.BadParameter("--format parquet requires --output FILE")
    if overwrite and target is None:
        raise typer.BadParameter("--overwrite requires --output FILE")

    def work(console: Console) -> None:
        from stateplan.plans.state import CheckpointReader
        from stateplan.plans.state.keys import parse_keys
        from stateplan.plans.state.output import Limited, check_target, json_lines, table_text, written

        chosen = format_of(kind, target, _BY_EXTENSION) or RowFormat.TEXT
        most = limit if limit is not None else _TEXT_ROWS if chosen is RowFormat.TEXT and target is None else 0
        if target is not None:
            check_target(target, overwrite=overwrite)
        reader = CheckpointReader.read(checkpoint, settings(pairs), batch=batch, at=moment)
        state = reader.select_one(selector)
        name = state.selector
        found = reader.table(state, table)
        keys = parse_keys(key or [], list(found.labels.values()))
        reader.request(state, table, keys)
        console.status("starting Spark")
        # One row more than wanted says whether there are more.
        schema, batches = reader.batches(
            name, table=table, keys=keys, expired=expired, limit=most + 1 if most else None
        )
        rows = Limited(batches, most)
        if target is not None:
            count = written(target, chosen.value, schema, rows, overwrite=overwrite)
            console.note(f"{count:,} {'row' if count == 1 else 'rows'} in {target}")
        elif chosen is RowFormat.JSON:
            for line in json_lines(rows):
                console.raw(line.encode("utf-8", "surrogatepass"))
        else:
            console.show(table_text(schema, rows), None)
        if rows.more:
            console.note(f"only the first {most:,} rows are shown; --limit 0 shows all")
        others = [t.name for t in state.tables if t is not found]
        if others and table is None:
            console.note(f"the state has more tables: --table {', '.join(others)}")

    run(kind or Format.TEXT, quiet, debug, work)
