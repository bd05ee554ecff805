"""The commands on a running or stopped job, one module each. A command loads its dependencies when it runs."""

from __future__ import annotations

from stateplan.cli.groups import group

job_app = group(
    "Monitor a running or stopped job.",
    {
        "top": "stateplan.cli.job.top:top",
        "metrics": "stateplan.cli.job.metrics:metrics",
    },
)
