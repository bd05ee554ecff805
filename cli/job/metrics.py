"""``stateplan job metrics``."""

from __future__ import annotations

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import CheckpointArgument, SettingsOption, settings


@command(formats=False, quiet=False)
def metrics(console: Console, checkpoint: CheckpointArgument, pairs: SettingsOption) -> None:
    """Print the metrics of a job in the Prometheus text format."""
    from stateplan.cli.job.snapshot import open_job
    from stateplan.runtime.metrics.prometheus import exposition

    console.raw(exposition(open_job(checkpoint, settings(pairs))[1]).encode())
