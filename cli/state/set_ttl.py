"""``stateplan state set-ttl``."""

from __future__ import annotations

from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import AssignmentsArgument, CheckpointArgument, SettingsOption, settings


@command()
def set_ttl(
    console: Console,
    checkpoint: CheckpointArgument,
    assignments: AssignmentsArgument,
    pairs: SettingsOption,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without requesting them.")] = False,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until a micro-batch has applied the new TTL.")] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Limit for --wait. The command then exits with code 4.")
    ] = 60,
) -> ExitCode:
    """Change TTLs of a running job. The next new micro-batch applies them."""
    if dry_run and wait:
        raise typer.BadParameter("--dry-run and --wait are mutually exclusive")
    from stateplan.plans.live import ask, wait_for
    from stateplan.plans.selector_text import parse_assignment
    from stateplan.runtime.spark.hadoop import checkpoint_path

    ttl_assignments = [parse_assignment(text) for text in assignments]
    edit = ask(checkpoint_path(checkpoint, settings(pairs)), ttl_assignments, write=not dry_run)
    is_pending = any(change.awaited for change in edit.changes)
    if is_pending and edit.writer is None:
        console.note(f"no job is running on {checkpoint}; the next start applies the TTL")
    for change in edit.changes:
        if change.shorter and change.awaited:
            console.note(f"{change.label}: rows whose last access is older than the new TTL will expire")
    if wait and is_pending:
        console.status("waiting for a micro-batch")
        edit = wait_for(edit, timeout)
    console.show(edit.to_text().rstrip("\n"), {**edit.to_json(), "written": not dry_run})
    return ExitCode.OK
