"""Who reports about a job to other systems: lineage events and telemetry. Each is imported where it is switched on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from stateplan.common.settings import TRACED, value
from stateplan.connectors.extras import require

if TYPE_CHECKING:
    from stateplan.common.secrets import Secrets
    from stateplan.runtime.job import Job
    from stateplan.session.jobs import JobRecord

_LINEAGE = "lineage.openlineage.enabled"


class Reporting(Protocol):
    """Reports about jobs to one other system."""

    def hear(self, note: str) -> None:
        """The job that is being started, or runs, tells its user something."""

    def follow(self, job: Job, record: JobRecord, secrets: Secrets) -> None:
        """Reports about a job that has just been started, until it has ended.

        Args:
            job: the job.
            record: its record, with its plan.
            secrets: what must not be in any report.
        """


class JobReports:
    """Who reports about a job that is about to start.

    Args:
        reports: all of them.
        tell: gets notes for the user.

    Attributes:
        tell: gets notes for the user, and hands them to all reports.
    """

    def __init__(self, reports: Sequence[Reporting], tell: Callable[[str], None] | None) -> None:
        self._reports, self._tell = reports, tell
        self.tell = self._tell_all if reports else tell

    def _tell_all(self, note: str) -> None:
        if self._tell is not None:
            self._tell(note)
        for one in self._reports:
            one.hear(note)

    def follow(self, job: Job, record: JobRecord, secrets: Secrets) -> None:
        """As :meth:`Reporting.follow`."""
        for one in self._reports:
            one.follow(job, record, secrets)


def job_reports(options: Mapping[str, str], tell: Callable[[str], None] | None) -> JobReports:
    """What the options of a session switch on; by default nothing.

    Args:
        options: the options.
        tell: gets notes for the user.

    Raises:
        OptionError: OPT122, an extra is not installed; OPT177, OPT188, it cannot be set up.
    """
    reports: list[Reporting | None] = []
    if value(options, _LINEAGE):
        require("openlineage", "openlineage.client", f"the option '{_LINEAGE}'")
        from stateplan.session.lineage_events import lineage_events

        reports.append(lineage_events(options, tell))
    if value(options, TRACED):
        for module in ("opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http"):
            require("opentelemetry", module, f"the option '{TRACED}'")
        from stateplan.session.telemetry import telemetry_of

        reports.append(telemetry_of(options, tell))
    return JobReports([one for one in reports if one is not None], tell)
