"""Threads that report about jobs to servers, beside the jobs: until a job is over, and at the end of the process."""

from __future__ import annotations

import atexit
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from stateplan.common.files import first_line
from stateplan.common.redaction import redacted, without

if TYPE_CHECKING:
    from stateplan.common.secrets import Secrets
    from stateplan.runtime.job import Job

PATIENCE = 5.0
"""How long the end of the process waits for the last reports, s; a fifth of it if the server has not been reached."""


def problem_of(error: BaseException) -> str:
    """A failure of a client, in a line."""
    return f"{type(error).__name__}: {first_line(error)}"


class JobFollower(ABC):
    """A thread that follows one job. Nothing that it does can slow down the job or make it fail.

    Args:
        job: the job.
        name: of the thread.
        secrets: what must not be in any report.
        report: tells the user that reports are lost, and why.

    Attributes:
        job: the job.
        over: set when it has ended.
        is_reached: whether the server has accepted the last report.
        thread: the thread.
    """

    def __init__(self, job: Job, name: str, secrets: Secrets, report: Callable[[str], None]) -> None:
        self.job = job
        self.over = threading.Event()
        self.is_reached = True
        self.thread = threading.Thread(target=self.run, name=f"{name} of {job.job_id}", daemon=True)
        self._secrets = secrets
        self._report = report
        self._has_reported = False

    @abstractmethod
    def run(self) -> None:
        """Reports until the job has ended."""

    def start(self) -> None:
        """Begins. Where no thread can be started, this is reported."""
        try:
            self.thread.start()
        except RuntimeError as error:
            self.report(problem_of(error))
            return
        if not _followers:
            atexit.register(_finish)
        _followers[:] = [follower for follower in _followers if follower.thread.is_alive()]
        _followers.append(self)
        self.job.when_over(self.end)

    def end(self, job: Job) -> None:
        """The job has ended."""
        self.over.set()

    def wait(self, until: float) -> None:
        """Waits for the last report about a job that has ended. What is not sent until then is lost."""
        if self.over.is_set():
            self.thread.join(max(0.0, min(until - time.monotonic(), PATIENCE / 5)))
            if self.is_reached:
                self.thread.join(max(0.0, until - time.monotonic()))
            if self.thread.is_alive():
                self.report("no answer when the process ended")

    def report(self, problem: str) -> None:
        """Tells the user once that reports are lost, and why."""
        if not self._has_reported:
            self._has_reported = True
            with suppress(Exception):
                self._report(problem)

    def hide(self, text: str) -> str:
        """A text without secrets."""
        return without(redacted(text), self._secrets.values.values())


_followers: list[JobFollower] = []
"""Those of jobs whose reports are not all sent."""


def _finish() -> None:
    """At the end of the process: waits for the last reports about jobs that have ended, but not for long."""
    until = time.monotonic() + PATIENCE
    for follower in list(_followers):
        follower.wait(until)
