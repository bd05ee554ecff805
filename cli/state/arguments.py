"""The arguments and options that commands on state have in common."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

CheckpointArgument = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="Checkpoint directory of the job (execution.checkpointing.dir).")
]
BatchOption = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", help="Show the state after micro-batch N. Default: the last one."),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="INSTANT",
        help="Compute ages at this time: '2026-01-31 08:00:00' in UTC, or epoch milliseconds. Default: now, or the "
        "last replayed instant.",
    ),
]


def instant(text: str | None) -> int | None:
    """Milliseconds since 1970 of an instant on the command line.

    Raises:
        typer.BadParameter: when it is none.
    """
    if text is None:
        return None
    try:
        if text.strip().lstrip("-").isdecimal():
            return int(text)
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{text!r:.60} is neither an instant such as '2026-01-31 08:00:00' nor a number of milliseconds",
            param_hint="--at",
        ) from None
    zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
    return round(zoned.timestamp() * 1000)
