"""``stateplan state advise``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.advice import MissOption, PlotOption, set_in_plan, tell
from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import CheckpointArgument, SettingsOption, settings
from stateplan.cli.plan_files import check_plot


@command()
def advise(
    console: Console,
    checkpoint: CheckpointArgument,
    pairs: SettingsOption,
    selectors: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[SELECTOR]...", help="Show only these states, such as 'join.left'.", show_default=False
        ),
    ] = None,
    miss: MissOption = "0.01%",
    plot: PlotOption = None,
    write: Annotated[
        str | None,
        typer.Option("--write", metavar="PLAN", help="Set the advised TTLs in this plan file, and print the diff."),
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Set the advised TTLs in the running job.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="With --write or --live: print the changes without making them.")
    ] = False,
) -> None:
    """Advise a TTL for each state, from the ages at which its rows were used."""
    if dry_run and write is None and not live:
        raise typer.BadParameter("--dry-run requires --write or --live")
    from stateplan.plans.state import CheckpointReader
    from stateplan.plans.state.advise import parse_share

    share = parse_share(miss)
    check_plot(plot)
    reader = CheckpointReader.read(checkpoint, settings(pairs))
    reader.select(*selectors or [])
    console.status("starting Spark")
    advice = reader.advise(*selectors or [], miss=share)
    texts, data = tell(console, advice, plot)
    if write is not None:
        data["diff"] = diff = set_in_plan(write, advice, settings(pairs), dry_run)
        texts.append(diff.rstrip("\n") or f"{write} has the advised TTLs")
    if live:
        from stateplan.plans.live import ask

        edit = ask(reader.snapshot.folder, advice.assignments, write=not dry_run)
        texts.append(edit.to_text().rstrip("\n") if edit.changes else "the job has the advised TTLs")
        data["live"] = edit.to_json()
    console.show("\n\n".join(texts), data)
