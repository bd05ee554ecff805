"""``stateplan job metrics``."""

from __future__ import annotations

from stateplan.cli.console import Console
from stateplan.cli.options import CheckpointArgument, DebugOption, Format, run


def metrics(checkpoint: CheckpointArgument, debug: DebugOption = False) -> None:
    """Print the metrics of a job in the Prometheus text format."""

    def work(console: Console) -> None:
        from stateplan.cli.job.look import look_at
        from stateplan.execnodes.runtime.metrics.prometheus import exposition

        console.raw(exposition(look_at(checkpoint)[1]).encode())

    run(Format.TEXT, False, debug, work)
