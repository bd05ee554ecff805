"""``stateplan plan show``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import PlanArgument, SettingsOption, settings
from stateplan.cli.plan_files import read_plan


@command(quiet=False)
def show(
    console: Console,
    plan: PlanArgument,
    pairs: SettingsOption,
    stateful: Annotated[bool, typer.Option("--stateful", help="Show only operators that keep state.")] = False,
    match: Annotated[
        str | None,
        typer.Option(
            "--match",
            "-m",
            metavar="WORDS",
            help="Show only operators whose id, uid, type, description, keys or states contain all these words. '[5]' "
            "matches operator 5.",
        ),
    ] = None,
) -> None:
    """List the operators of a plan, their states, and where each TTL comes from."""
    from stateplan.plans.show import narrow_view, to_json, to_text
    from stateplan.plans.show import show as view_of

    full_view = view_of(read_plan(plan), settings(pairs))
    view = narrow_view(full_view, stateful, match)
    console.show(to_text(view, of=len(full_view.operators)), to_json(view))
