"""``stateplan state read``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import (
    AtOption,
    BatchOption,
    CheckpointArgument,
    SettingsOption,
    extensions,
    format_of,
    instant,
    output_option,
    settings,
)
from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from stateplan.plans.state.output import Limited

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


@dataclass(frozen=True)
class Arguments:
    """The arguments and options of ``stateplan state read``."""

    checkpoint: CheckpointArgument
    pairs: SettingsOption
    selector: Annotated[
        str | None,
        typer.Argument(metavar="SELECTOR", help="State to read, such as 'join.left', 'deduplicate' or '5'."),
    ] = None
    key: Annotated[
        list[str] | None,
        typer.Option(
            "--key", "-k", metavar="COLUMN=VALUE", help="Read only rows with this value; NULL matches null. Repeatable."
        ),
    ] = None
    table: Annotated[
        str | None,
        typer.Option("--table", metavar="NAME", help="Table of the state, as listed by 'state show'."),
    ] = None
    expired: Annotated[bool, typer.Option("--expired", help="Include expired rows that have not been removed yet.")] = (
        False
    )
    limit: Annotated[
        int | None,
        typer.Option(
            "--limit",
            "-n",
            metavar="ROWS",
            min=0,
            help=f"Maximum number of rows, 0 for all. Default: {_TEXT_ROWS} for a text table.",
        ),
    ] = None
    output: Annotated[
        RowFormat | None,
        typer.Option(
            "--format",
            help="Text table, JSON lines or Parquet. Default: by the file extension of --output, otherwise text.",
        ),
    ] = None
    target: Annotated[
        str | None,
        output_option(f"Write the rows to a file, which ends in {extensions(_BY_EXTENSION)}."),
    ] = None
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing --output file.")] = False
    batch: BatchOption = None
    at: AtOption = None

    @property
    def row_format(self) -> RowFormat:
        """The format of the rows. Raises OptionError OPT403."""
        return format_of(self.output, self.target, _BY_EXTENSION) or RowFormat.TEXT

    @property
    def most(self) -> int:
        """The maximum number of rows; 0 for all."""
        if self.limit is not None:
            return self.limit
        return _TEXT_ROWS if self.row_format is RowFormat.TEXT and self.target is None else 0


@command()
def read(console: Console, arguments: Arguments) -> None:
    """Read the rows of a state, with their last access and expiry times."""
    moment = instant(arguments.at)
    if arguments.output is RowFormat.PARQUET and arguments.target is None:
        raise typer.BadParameter("--format parquet requires --output FILE")
    if arguments.overwrite and arguments.target is None:
        raise typer.BadParameter("--overwrite requires --output FILE")

    from stateplan.plans.state import CheckpointReader
    from stateplan.plans.state.keys import parse_keys
    from stateplan.plans.state.output import Limited, check_target

    most = arguments.most
    if arguments.target is not None:
        check_target(arguments.target, overwrite=arguments.overwrite)
    reader = CheckpointReader.read(arguments.checkpoint, settings(arguments.pairs), batch=arguments.batch, at=moment)
    state = reader.select_one(arguments.selector)
    table = reader.table(state, arguments.table)
    keys = parse_keys(arguments.key or [], list(table.labels.values()))
    reader.request(state, arguments.table, keys)
    console.status("starting Spark")
    # One row more than wanted says whether there are more.
    schema, batches = reader.batches(
        state.selector, table=arguments.table, keys=keys, expired=arguments.expired, limit=most + 1 if most else None
    )
    rows = Limited(batches, most)
    _show(console, arguments, schema, rows)
    if rows.more:
        console.note(f"only the first {most:,} rows are shown; --limit 0 shows all")
    others = [t.name for t in state.tables if t is not table]
    if others and arguments.table is None:
        console.note(f"the state has more tables: --table {', '.join(others)}")


def _show(console: Console, arguments: Arguments, schema: pa.Schema, rows: Limited) -> None:
    """Writes rows where they are to go."""
    from stateplan.plans.state.output import json_lines, table_text, write_rows

    if arguments.target is not None:
        count = write_rows(arguments.target, arguments.row_format.value, schema, rows, overwrite=arguments.overwrite)
        console.note(f"{count:,} {'row' if count == 1 else 'rows'} in {arguments.target}")
    elif arguments.row_format is RowFormat.JSON:
        for line in json_lines(rows):
            console.raw(line.encode("utf-8", "surrogatepass"))
    else:
        console.show(table_text(schema, rows), None)
