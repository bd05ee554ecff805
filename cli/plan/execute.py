"""``stateplan plan execute``."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.options import (
    DebugOption,
    Format,
    FormatOption,
    PlanArgument,
    QuietOption,
    SettingsOption,
    run,
    settings,
)

__all__ = ["execute"]


def execute(
    plan: PlanArgument,
    pairs: SettingsOption,
    file: Annotated[
        str | None, typer.Option("--file", "-f", metavar="SCRIPT", help="SQL script to run first: tables and settings.")
    ] = None,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a plan, until its sources end or Ctrl-C."""
    from cli.session import Session

    run(output, quiet, debug, lambda console: Session(console, settings(pairs), file).execute_plan(plan))
