"""Snapshots of a job, for the commands that show it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import Any

from stateplan.cli.job.top_text import line, table_text
from stateplan.common.errors import RunError, StateplanError
from stateplan.common.paths import AnyPath, sorted_paths
from stateplan.common.readable import amount
from stateplan.plans.job_snapshot import JobPlan, Key, PlannedState, job_json
from stateplan.runtime.checkpoint.filling import BACKFILL, RECOVERING
from stateplan.runtime.checkpoint.locks import running_writer
from stateplan.runtime.metrics.view import JobView, Watcher
from stateplan.runtime.spark.hadoop import checkpoint_path


def open_job(checkpoint: str, options: Mapping[str, str]) -> tuple[Watcher, JobView]:
    """The job of the checkpoint that the argument CHECKPOINT names.

    Raises:
        CheckpointError: CKPT001, CKPT002, there is no such checkpoint; CKPT029, no job has written metrics into it.
    """
    watcher = Watcher(checkpoint_path(checkpoint, options))
    view = watcher.look()
    if view is None:
        raise RunError("RUN085", checkpoint=checkpoint)
    return watcher, view


_NOT_YET = {"CKPT001", "CKPT002", "RUN085"}
"""Errors of a checkpoint whose job has just started: no directory, no content, no figures."""


def await_job(
    checkpoint: str, options: Mapping[str, str], seconds: float, tell: Callable[[str], None], interval: float = 0.5
) -> JobSnapshot:
    """A snapshot of a job, as soon as the job exists.

    Args:
        checkpoint: names its checkpoint.
        options: the options of the session.
        seconds: the longest wait for a job to start. A running job has no limit until it has figures.
        tell: receives a note that the job does not exist yet, and others while its checkpoint is made.
        interval: seconds between two attempts.

    Raises:
        CheckpointError, RunError: as :func:`open_job`.
    """
    folder, last_note = checkpoint_path(checkpoint, options), ""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return JobSnapshot(checkpoint, options)
        except RunError as error:
            last_error = error
        is_unreadable = isinstance(last_error.__cause__, OSError)
        if last_error.code not in _NOT_YET or is_unreadable or (folder.exists() and not folder.is_dir()):
            raise last_error
        if time.monotonic() >= deadline and running_writer(folder) is None:
            raise last_error
        note = _filling_text(folder) or last_note or last_error.message
        if note != last_note:
            tell(f"waiting for a job to start: {note}")
            last_note = note
        time.sleep(interval)


def _filling_text(folder: AnyPath) -> str | None:
    """What is done to make a checkpoint for a changed plan; None if nothing is."""
    try:
        origin = (folder / RECOVERING).read_text(encoding="utf-8").strip()
    except OSError:
        return None
    text, rows = f"its checkpoint is made from {origin}", 0.0
    for part in sorted_paths(folder.glob(f"{BACKFILL}-*")):
        with contextlib.suppress(StateplanError):
            view = Watcher(part).look()
            sources = view.info.operators if view is not None else ()
            rows += sum(view.totals.get(o.uid, {}).get("rows_in", 0) for o in sources if view and o.kind == "source")
    return f"{text}, {amount(int(rows), 'row')} of history read" if rows else text


class JobSnapshot:
    """The state of a job, read again by :meth:`again`. Raises the same errors as :func:`open_job`."""

    def __init__(self, checkpoint: str, options: Mapping[str, str]) -> None:
        self._folder = checkpoint_path(checkpoint, options)
        self._watcher, self._view = open_job(checkpoint, options)
        self._plan = self._read_plan()

    def refresh(self) -> None:
        """Reads the job again."""
        view = self._watcher.look()
        if view is not None:
            if view.info.started != self._view.info.started:
                self._plan = self._read_plan()
            self._view = view

    @property
    def is_running(self) -> bool:
        return self._view.writer is not None

    @property
    def batch(self) -> int:
        """The last micro-batch that was committed, -1 before the first."""
        return self._view.last.batch if self._view.last else -1

    def text(self, width: int = 0) -> str:
        return table_text(self._view, self._states(), width)

    def line(self) -> str:
        return line(self._view)

    def data(self) -> dict[str, Any]:
        return job_json(self._view, self._states(), self._view.operators())

    def _read_plan(self) -> JobPlan | None:
        """None if the plan cannot be read."""
        with contextlib.suppress(StateplanError, OSError):
            return JobPlan.of(self._folder)
        return None

    def _states(self) -> Mapping[Key, PlannedState]:
        """The states with their selectors and TTLs."""
        with contextlib.suppress(StateplanError):
            return self._plan.states() if self._plan else {}
        return {}
