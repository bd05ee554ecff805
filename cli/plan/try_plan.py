"""``stateplan plan try``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import PlanArgument, ScriptOption, SettingsOption, settings
from stateplan.cli.plan_files import check_plot, write_plot

_BETWEEN = re.compile(r",(?![^\[]*\])")


@command()
def try_plan(
    console: Console,
    plan: PlanArgument,
    pairs: SettingsOption,
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="SELECTOR=TTL,...",
            help="A variant: other TTLs, such as 'join.left=3 h' or 'join.left=3 h, join.right=1 d'. Repeatable.",
        ),
    ],
    file: ScriptOption = None,
    never: Annotated[
        bool, typer.Option("--never", help="Compare with a variant in which no state expires, not with the plan.")
    ] = False,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Plot the state over time: FILE.svg or FILE.html.")
    ] = None,
) -> None:
    """Run a plan with other TTLs over bounded input, and show what differs in results and state."""
    from stateplan.cli.session import Session
    from stateplan.plans.selector_text import parse_assignment
    from stateplan.plans.trial import Variant
    from stateplan.plans.trial_view import to_html, to_json, to_svg, to_text

    check_plot(plot)
    variants = []
    for text in sets:
        parts = [part.strip() for part in _BETWEEN.split(text)]
        variants.append(Variant(text.strip(), tuple(parse_assignment(part) for part in parts)))
    trial = Session(console, settings(pairs), file).try_plan(plan, variants, never)
    write_plot(console, plot, lambda: to_svg(trial), lambda: to_html(trial))
    console.show(to_text(trial).rstrip("\n"), to_json(trial))
