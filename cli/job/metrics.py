"""``stateplan job metrics``."""

from __future__ import annotations

from cli.console import Console
from cli.options import CheckpointArgument, DebugOption, Format, run

__all__ = ["metrics"]


def metrics(
    checkpoint: CheckpointArgument,
    debug: DebugOption = False,
) -> None:
    """Print the figures of a job in Prometheus' text format."""

    def work(console: Console) -> None:
        from cli.job.look import look_at
        from execnodes.runtime.prometheus import exposition

        console.raw(exposition(look_at(checkpoint)[1]).encode())

    run(Format.TEXT, False, debug, work)
