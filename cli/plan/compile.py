"""``stateplan plan compile``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import InitOption, SettingsOption, settings
from stateplan.cli.plan_files import tells_new_folder


@command()
def compile_plan(
    console: Console,
    pairs: SettingsOption,
    file: Annotated[
        str,
        typer.Option(
            "--file", "-f", metavar="SCRIPT", help="SQL script with tables, settings and one INSERT or STATEMENT SET."
        ),
    ],
    target: Annotated[
        str, typer.Option("--output", "-o", metavar="PLAN", help="Path or URL of the plan file to write.")
    ],
    init: InitOption = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="Keep an existing plan file.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing plan file.")] = False,
) -> None:
    """Compile the query of a script into a plan file."""
    from stateplan.cli.session import Session

    if if_not_exists and overwrite:
        raise typer.BadParameter("--if-not-exists and --overwrite are mutually exclusive")
    with tells_new_folder(console, target):
        Session(console, settings(pairs), init).compile(file, target, if_not_exists, overwrite)
