"""``stateplan state show``."""

from __future__ import annotations

from typing import Annotated

import typer

from cli.console import Console
from cli.options import DebugOption, Format, FormatOption, QuietOption, SettingsOption, run, settings
from cli.state.arguments import AtOption, BatchOption, CheckpointArgument, instant

__all__ = ["show"]


def show(
    checkpoint: CheckpointArgument,
    pairs: SettingsOption,
    selectors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SELECTOR]...", help="Only these states: 'join.left', 'join', '5'.", show_default=False
        ),
    ] = None,
    what_if: Annotated[
        list[str] | None,
        typer.Option(
            "--what-if",
            "-w",
            metavar="SELECTOR=TTL",
            help="How many rows and bytes this TTL would free, such as 'join.left=3 h'; may be repeated.",
        ),
    ] = None,
    batch: BatchOption = None,
    at: AtOption = None,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Show how much state a checkpoint holds, how old it is, and what another TTL would leave of it."""
    moment = instant(at)

    def work(console: Console) -> None:
        from planner.state import CheckpointReader
        from planner.state.show import to_json, to_text
        from plans.selector_text import parse_assignment

        guesses = [parse_assignment(text) for text in what_if or []]
        reader = CheckpointReader.read(checkpoint, settings(pairs), batch=batch, at=moment)
        reader.select(*selectors or [])
        console.status("starting Spark")
        found = reader.show(*selectors or [], what_if=guesses)
        console.show(to_text(found), to_json(found))

    run(output, quiet, debug, work)
