"""The commands on a running or stopped job, one module each. A command loads its dependencies when it runs."""

from __future__ import annotations

from stateplan.cli.job.metrics import metrics
from stateplan.cli.job.top import top
from stateplan.cli.options import group

job_app = group("Monitor a running or stopped job.")
job_app.command("top")(top)
job_app.command("metrics")(metrics)
