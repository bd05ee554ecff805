"""``stateplan job metrics``."""

from __future__ import annotations

from stateplan.cli.console import Console
from stateplan.cli.options import CheckpointArgument, DebugOption, Format, SettingsOption, run, settings


def metrics(checkpoint: CheckpointArgument, pairs: SettingsOption, debug: DebugOption = False) -> None:
    """Print the metrics of a job in the Prometheus text format."""

    def work(console: Console) -> None:
        from stateplan.cli.job.look import look_at
        from stateplan.runtime.metrics.prometheus import exposition

        console.raw(exposition(look_at(checkpoint, settings(pairs))[1]).encode())

    run(Format.TEXT, False, debug, work)
