"""The ``stateplan`` command line. This module imports no engine, so that ``plan show`` starts fast."""

from __future__ import annotations

import gc
import sys
from collections.abc import Sequence
from typing import Annotated, NoReturn

import typer

from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.job import job_app
from stateplan.cli.options import (
    EXIT_CODES,
    DebugOption,
    Format,
    FormatOption,
    InitOption,
    QuietOption,
    SettingsOption,
    installed_version,
    run,
    settings,
)
from stateplan.cli.plan import plan_app
from stateplan.cli.state import state_app

app = typer.Typer(
    name="stateplan",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    help="Compile streaming SQL into a plan file, edit the TTL of each state, and run the plan on Spark.",
)
app.add_typer(plan_app, name="plan")
app.add_typer(job_app, name="job")
app.add_typer(state_app, name="state")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stateplan {installed_version()}")
        raise typer.Exit


@app.callback()
def top(
    _: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that come before a command."""


@app.command()
def sql(
    pairs: SettingsOption,
    file: Annotated[str | None, typer.Option("--file", "-f", metavar="SCRIPT", help="SQL script to run.")] = None,
    execute: Annotated[
        list[str] | None, typer.Option("--execute", "-e", metavar="SQL", help="SQL statements to run. Repeatable.")
    ] = None,
    init: InitOption = None,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run SQL: a script (-f), statements (-e) or standard input. On a terminal, open the SQL shell."""
    from stateplan.cli import sql as command

    run(output, quiet, debug, lambda console: command.run(console, settings(pairs), file, execute or [], init, debug))


def main(args: Sequence[str] | None = None) -> NoReturn:
    """The entry point of the command."""
    # A plan is many small, long-lived objects: garbage collection would take a sixth of the time.
    gc.set_threshold(200_000, 20, 20)
    app(args=args)
    sys.exit(ExitCode.OK)
