"""``stateplan plan advise``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.advice import MissOption, PlotOption, set_in_plan, tell
from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import PlanArgument, ScriptOption, SettingsOption, settings
from stateplan.cli.plan_files import STREAM, check_plot


@command()
def advise(
    console: Console,
    plan: PlanArgument,
    pairs: SettingsOption,
    file: ScriptOption = None,
    miss: MissOption = "0.01%",
    plot: PlotOption = None,
    write: Annotated[
        bool, typer.Option("--write", help="Set the advised TTLs in the plan, and print the diff.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --write: print the changes without making them.")
    ] = False,
) -> None:
    """Run a plan over recorded input without TTLs, and advise a TTL for each state."""
    from stateplan.cli.session import Session

    if dry_run and not write:
        raise typer.BadParameter("--dry-run requires --write")
    if write and plan == STREAM:
        raise typer.BadParameter("standard input cannot be changed")
    from stateplan.plans.state.advise import parse_share

    share = parse_share(miss)
    check_plot(plot)
    advice = Session(console, settings(pairs), file).advise_plan(plan, share)
    texts, data = tell(console, advice, plot, plan)
    if write:
        data["diff"] = diff = set_in_plan(plan, advice, settings(pairs), dry_run)
        texts.append(diff.rstrip("\n") or f"{plan} has the advised TTLs")
    console.show("\n\n".join(texts), data)
