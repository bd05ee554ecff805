"""``stateplan state show``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import AtOption, BatchOption, CheckpointArgument, SettingsOption, instant, settings
from stateplan.cli.plan_files import STREAM, tells_new_folder
from stateplan.common.errors import OptionError

if TYPE_CHECKING:
    from stateplan.plans.state import CheckpointReader


@command()
def show(
    console: Console,
    checkpoint: CheckpointArgument,
    pairs: SettingsOption,
    selectors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SELECTOR]...",
            help="Show only these states, such as 'join.left', 'join' or '5'.",
            show_default=False,
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            "-w",
            metavar="SELECTOR=TTL",
            help="Show how many rows and bytes this TTL would free, such as 'join.left=3 h'. Repeatable.",
        ),
    ] = None,
    plot: Annotated[
        str | None,
        typer.Option(
            "--plot",
            metavar="FILE.svg",
            help="Plot the size of the states over time as an SVG, without starting Spark. - writes to standard "
            "output.",
        ),
    ] = None,
    batch: BatchOption = None,
    at: AtOption = None,
) -> None:
    """Show the size and age of the state in a checkpoint, and what another TTL would free."""
    moment = instant(at)
    if plot is not None and (what_if or batch is not None or at is not None):
        raise typer.BadParameter("--plot accepts selectors, but not --what-if, --batch or --at")
    from stateplan.plans.selector_text import parse_assignment
    from stateplan.plans.state import CheckpointReader
    from stateplan.plans.state.show import to_json, to_text

    guesses = [parse_assignment(text) for text in what_if or []]
    reader = CheckpointReader.read(checkpoint, settings(pairs), batch=batch, at=moment)
    if plot is not None:
        if plot != STREAM and PurePath(plot).suffix.lower() != ".svg":
            raise OptionError("OPT403.ending", target=plot, endings=".svg", expected="a name that ends in .svg, or -")
        draw(console, reader, plot, selectors or [])
        return
    reader.select(*selectors or [])
    console.status("starting Spark")
    state_report = reader.show(*selectors or [], what_if=guesses)
    console.show(to_text(state_report), to_json(state_report))


def draw(console: Console, reader: CheckpointReader, target: str, selectors: Sequence[str]) -> None:
    """Draws the sizes of states over time."""
    from stateplan.common.readable import amount
    from stateplan.plans.render.output import write_beside
    from stateplan.plans.state.history import to_svg

    state_history = reader.history(*selectors)
    text = to_svg(state_history, f"State of {reader.snapshot.folder.name}")
    if target == STREAM:
        console.raw(text.encode())
        return
    with tells_new_folder(console, target):
        write_beside(None, target, text)
    last = [(s.name, next((v for v in reversed(s.rows) if v is not None), 0)) for s in state_history.series]
    console.show(
        f"{amount(len(state_history.series), 'state')} over {len(state_history.batches)} records, drawn to {target}",
        {
            "file": target,
            "records": len(state_history.batches),
            "states": [{"selector": n, "storedRows": r} for n, r in last],
        },
    )
