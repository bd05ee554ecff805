"""``stateplan job top``."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import CheckpointArgument, Format, SettingsOption, settings

if TYPE_CHECKING:
    from stateplan.cli.job.snapshot import JobSnapshot

_OTHER_SCREEN, _FIRST_SCREEN = "\033[?1049h\033[?25l", "\033[?25h\033[?1049l"


@command(quiet=False)
def top(
    console: Console,
    checkpoint: CheckpointArgument,
    pairs: SettingsOption,
    interval: Annotated[
        float, typer.Option("--interval", "-n", metavar="SECONDS", min=0.1, help="Refresh interval.")
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print the current figures and exit.")] = False,
    timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=0, help="Limit for waiting until a job starts.")
    ] = 60,
    output: Format = Format.TEXT,
) -> ExitCode:
    """Show the throughput, state and load of each operator, until the job ends or Ctrl-C is pressed.

    A terminal shows a table that refreshes. A pipe gets one line per micro-batch, or one JSON object
    with --format json. If no job has started yet, the command waits for it.
    """
    from stateplan.cli.job.snapshot import JobSnapshot, await_job

    options = settings(pairs)
    try:
        look = JobSnapshot(checkpoint, options) if once else await_job(checkpoint, options, timeout, console.note)
    except KeyboardInterrupt:
        return ExitCode.OK
    live = output is Format.TEXT and not once and sys.stdout.isatty()
    if live and look.is_running:
        with contextlib.suppress(KeyboardInterrupt):
            _live(look, interval)
        look.refresh()
        console.show(look.text(), look.data())
        return ExitCode.OK
    last: tuple[int, bool] | None = None
    try:
        while True:
            now = look.batch, look.is_running
            if once or live or (last is None and not look.is_running):
                console.show(look.text(), look.data())
            elif now != last:
                console.show(look.line(), look.data())
            if once or not look.is_running:
                return ExitCode.OK
            last = now
            time.sleep(interval)
            look.refresh()
    except KeyboardInterrupt:
        return ExitCode.OK


def _live(look: JobSnapshot, interval: float) -> None:
    """A screen of its own, drawn again and again while the job runs."""
    sys.stdout.write(_OTHER_SCREEN)
    try:
        while look.is_running:
            size = shutil.get_terminal_size()
            lines = look.text(size.columns - 1).splitlines()[: size.lines - 1]
            sys.stdout.write("\033[H" + "".join(f"{text}\033[K\n" for text in lines) + "\033[J")
            sys.stdout.flush()
            time.sleep(interval)
            look.refresh()
    finally:
        sys.stdout.write(_FIRST_SCREEN)
        sys.stdout.flush()
