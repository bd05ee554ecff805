"""``stateplan plan try``."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import PlanArgument, ScriptOption, SettingsOption, settings
from stateplan.cli.plan.evolve import AcceptOption
from stateplan.cli.plan_files import check_plot, write_plot

_BETWEEN = re.compile(r",(?![^\[]*\])")


_SetOption = Annotated[
    list[str],
    typer.Option(
        "--set",
        metavar="SELECTOR=TTL,...",
        default_factory=list,
        show_default=False,
        help="A variant: other TTLs, such as 'join.left=3 h' or 'join.left=3 h, join.right=1 d'. Repeatable.",
    ),
]
_NeverOption = Annotated[
    bool, typer.Option("--never", help="Compare with a variant in which no state expires, not with the plan.")
]
_PlotOption = Annotated[
    str | None, typer.Option("--plot", metavar="FILE", help="Plot the state over time: FILE.svg or FILE.html.")
]
_CheckpointOption = Annotated[
    str | None,
    typer.Option(
        "--checkpoint",
        metavar="OLD",
        help="Instead of TTLs, try a changed plan: beside the plan of this checkpoint or savepoint, from a copy of its "
        "state, over the input that follows. The job may run.",
    ),
]
_ForOption = Annotated[
    str | None,
    typer.Option(
        "--for",
        metavar="DURATION",
        help="With --checkpoint: for how long both plans read, such as '10 min'. By default, they read the input that "
        "there is now.",
    ),
]


@command()
def try_plan(
    console: Console,
    plan: PlanArgument,
    pairs: SettingsOption,
    sets: _SetOption,
    file: ScriptOption = None,
    never: _NeverOption = False,
    plot: _PlotOption = None,
    checkpoint: _CheckpointOption = None,
    duration: _ForOption = None,
    accept: AcceptOption = None,
) -> None:
    """Run a plan with other TTLs, or a changed plan from a checkpoint, and show what differs in results and state."""
    from stateplan.cli.session import Session
    from stateplan.common.options import Option, OptionType, parse_value
    from stateplan.plans.selector_text import parse_assignment
    from stateplan.plans.trial import Variant
    from stateplan.plans.trial_view import to_html, to_json, to_svg, to_text

    options = settings(pairs)
    if checkpoint is not None:
        if sets or never or plot:
            raise typer.BadParameter("--checkpoint takes a changed plan, without --set, --never and --plot")
        if accept is not None:
            options["execution.state-recovery.accept"] = accept.value
        millis = None if duration is None else parse_value(Option("--for", OptionType.DURATION, ""), duration)
        fork = Session(console, options, file).try_from_checkpoint(plan, checkpoint, millis)
        console.show(fork.to_text().rstrip("\n"), fork.to_json())
        return
    if duration is not None or accept is not None:
        raise typer.BadParameter("--for and --accept need --checkpoint")
    if not sets and not never:
        raise typer.BadParameter("missing --set SELECTOR=TTL, --never or --checkpoint OLD")
    check_plot(plot)
    variants = []
    for text in sets:
        parts = [part.strip() for part in _BETWEEN.split(text)]
        variants.append(Variant(text.strip(), tuple(parse_assignment(part) for part in parts)))
    trial = Session(console, options, file).try_plan(plan, variants, never)
    write_plot(console, plot, lambda: to_svg(trial), lambda: to_html(trial))
    console.show(to_text(trial).rstrip("\n"), to_json(trial))
