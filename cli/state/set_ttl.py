"""``stateplan state set-ttl``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import DebugOption, Format, FormatOption, QuietOption, run


def set_ttl(
    checkpoint: Annotated[
        str, typer.Argument(metavar="CHECKPOINT", help="The checkpoint directory of a job, running or stopped.")
    ],
    assignments: Annotated[
        list[str],
        typer.Argument(
            metavar="SELECTOR=TTL...",
            help="Which state, and how long it lives: 'deduplicate=1 h', 'join.right=7 d', '5.0=never'.",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change, and ask for nothing.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="End when a micro-batch of the job has taken it in.")] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="How long --wait waits; then the command ends with code 4.")
    ] = 60,
    output: FormatOption = Format.TEXT,
    quiet: QuietOption = False,
    debug: DebugOption = False,
) -> None:
    """Change how long states of a job live, while it runs. The next micro-batch takes it in."""
    if dry_run and wait:
        raise typer.BadParameter("--dry-run asks for nothing that --wait could wait for")

    def work(console: Console) -> ExitCode:
        from stateplan.plans.live import ask, wait_for
        from stateplan.plans.selector_text import parse_assignment

        parsed = [parse_assignment(text) for text in assignments]
        edit = ask(Path(checkpoint.removeprefix("file://")), parsed, write=not dry_run)
        awaited = any(change.awaited for change in edit.changes)
        if awaited and edit.writer is None:
            console.note(f"no job runs on {checkpoint}: it is taken in when one is started")
        for change in edit.changes:
            if change.shorter and change.awaited:
                console.note(f"{change.label}: rows that were last touched longer ago are then dropped")
        if wait and awaited:
            console.status("waiting for a micro-batch")
            edit = wait_for(edit, timeout)
        console.show(edit.to_text().rstrip("\n"), {**edit.to_json(), "written": not dry_run})
        return ExitCode.OK

    run(output, quiet, debug, work)
