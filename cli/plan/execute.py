"""``stateplan plan execute``."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from stateplan.cli.console import Console
from stateplan.cli.options import (
    DebugOption,
    Format,
    FormatOption,
    PlanArgument,
    QuietOption,
    ScriptOption,
    SettingsOption,
    run,
    settings,
)


class Accept(StrEnum):
    """Verdicts on existing state that a run can accept, mildest first."""

    REWRITE = "rewrite"
    RESET = "reset"
    UNKNOWN = "unknown"


def execute(
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
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Run a plan until its sources end or Ctrl-C is pressed."""
    from stateplan.cli.session import Session

    def work(console: Console) -> None:
        options = settings(pairs)
        if accept is not None:
            options["execution.state-recovery.accept"] = accept.value
        Session(console, options, file).execute_plan(plan)

    run(output, quiet, debug, work)
