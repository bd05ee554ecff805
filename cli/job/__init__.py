"""The commands on a running or stopped job, one module each. A command loads its dependencies when it runs."""

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
    help="Monitor a running or stopped job.",
)
job_app.command("top")(top)
job_app.command("metrics")(metrics)
