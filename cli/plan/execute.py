"""``stateplan plan execute``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import PlanArgument, ScriptOption, SettingsOption, settings


class Accept(StrEnum):
    """Verdicts on existing state that a run can accept, mildest first."""

    REWRITE = "rewrite"
    RESET = "reset"
    UNDETERMINED = "unknown"


@command()
def execute(
    console: Console,
    plan: PlanArgument,
    pairs: SettingsOption,
    file: ScriptOption = None,
    accept: Annotated[
        Accept | None,
        typer.Option(
            help="Continue although some state in the checkpoint does not match the plan. rewrite: convert it. reset: "
            "also discard it, so that its operators start empty. unknown: also discard it where a match cannot be "
            "determined."
        ),
    ] = None,
) -> None:
    """Run a plan until its sources end or Ctrl-C is pressed."""
    from stateplan.cli.session import Session

    options = settings(pairs)
    if accept is not None:
        options["execution.state-recovery.accept"] = accept.value
    Session(console, options, file).execute_plan(plan)
