"""``stateplan state advise``."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.console import Console
from stateplan.cli.options import (
    CheckpointArgument,
    DebugOption,
    Format,
    FormatOption,
    QuietOption,
    SettingsOption,
    run,
    settings,
)
from stateplan.cli.plan_files import check_plot, tells_new_folder

if TYPE_CHECKING:
    from stateplan.plans.state.advise import Advised

MissOption = Annotated[
    str, typer.Option("--miss", metavar="SHARE", help="Share of the uses of a state that its TTL may miss.")
]
PlotOption = Annotated[
    str | None,
    typer.Option("--plot", metavar="FILE", help="Plot TTLs against missed uses and kept rows: FILE.svg or FILE.html."),
]


def advise(
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
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Advise a TTL for each state, from the ages at which its rows were used."""
    if dry_run and write is None and not live:
        raise typer.BadParameter("--dry-run requires --write or --live")

    def work(console: Console) -> None:
        from stateplan.plans.state import CheckpointReader
        from stateplan.plans.state.advise import parse_share

        share = parse_share(miss)
        check_plot(plot)
        reader = CheckpointReader.read(checkpoint, settings(pairs))
        reader.select(*selectors or [])
        console.status("starting Spark")
        found = reader.advise(*selectors or [], miss=share)
        text, data = tell(console, found, plot)
        if write is not None:
            from stateplan.cli.plan_files import read_plan
            from stateplan.plans.edit import plan_edit, write_edited

            edit = plan_edit(read_plan(write), found.assignments, settings(pairs))
            diff = edit.diff()
            if edit.splices and not dry_run:
                write_edited(edit)
            text += f"\n{diff}" if diff else f"\n{write} has the advised TTLs\n"
            data["diff"] = diff
        if live:
            from stateplan.plans.live import ask

            asked = ask(reader.snapshot.folder, found.assignments, write=not dry_run)
            text += f"\n{asked.to_text()}" if asked.changes else "\nthe job has the advised TTLs\n"
            data["live"] = asked.to_json()
        console.show(text.rstrip("\n"), data)

    run(output, quiet, debug, work)


def tell(console: Console, found: Advised, plot: str | None) -> tuple[str, dict[str, object]]:
    """The advice as text and data; the plot is written."""
    from stateplan.plans.render.output import write_beside
    from stateplan.plans.state.advise_view import to_html, to_svg, to_text

    if plot is not None:
        drawn = to_svg(found) if PurePath(plot).suffix.lower() == ".svg" else to_html(found)
        with tells_new_folder(console, plot):
            write_beside(None, plot, drawn)
    return to_text(found), found.to_json()
