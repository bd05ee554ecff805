"""The commands on a job, running or stopped, one module each. What a command needs is loaded when it runs."""

from __future__ import annotations

import typer

from stateplan.cli.job.metrics import metrics
from stateplan.cli.job.top import top
from stateplan.cli.options import EXIT_CODES

__all__ = ["job_app"]

job_app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    epilog=EXIT_CODES,
    help="Watch a job: what its operators do, and what they keep.",
)
job_app.command("top")(top)
job_app.command("metrics")(metrics)
