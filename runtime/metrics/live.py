"""Figures of tasks that still run.

Spark's accumulators bring a task's figures when it has ended. Until then a worker on the driver's machine leaves them
in a file, again and again.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from typing import NamedTuple

from stateplan.runtime.metrics.figures import Figures, add_figures

EVERY = 0.3
"""Seconds between two files of a task. A shorter task leaves none."""


class Attempt(NamedTuple):
    """An attempt at a task: ``batch`` is the micro-batch, -1 outside of one; ``task`` is unique among all attempts."""

    batch: int
    stage: int
    partition: int
    task: int


class LiveFigures:
    """The figures of the task that a worker runs.

    Args:
        folder: the folder of the files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._attempt: Attempt | None = None
        self._figures: Figures = {}
        self._so_far: Figures = {}
        self._due = 0.0

    def add(self, attempt: Attempt, uid: str, figures: dict[str, float]) -> None:
        """The operator has these figures more, in place of what :meth:`replace` said of it."""
        self._begin(attempt)
        self._so_far.pop(uid, None)
        add_figures(self._figures.setdefault(uid, {}), figures)
        self._leave()

    def replace(self, attempt: Attempt, uid: str, figures: dict[str, float]) -> None:
        """So far, the operator would have these figures more."""
        self._begin(attempt)
        self._so_far[uid] = figures
        self._leave()

    def _begin(self, attempt: Attempt) -> None:
        if self._attempt != attempt:
            self._attempt, self._figures, self._so_far = attempt, {}, {}
            self._due = time.monotonic() + EVERY

    def _leave(self) -> None:
        if time.monotonic() < self._due or self._attempt is None:
            return
        self._due = time.monotonic() + EVERY
        path = os.path.join(self._folder, "-".join(map(str, self._attempt)))
        with contextlib.suppress(OSError):  # the disk is full, or the job has ended
            with open(f"{path}.tmp", "w", encoding="ascii") as out:
                json.dump([self._figures, self._so_far], out)
            os.replace(f"{path}.tmp", path)


def live_figures(folder: str, batch: int) -> dict[Attempt, Figures]:
    """What the tasks of a micro-batch have left in a folder."""
    figures_by_attempt: dict[Attempt, Figures] = {}
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            parts = entry.name.split("-")
            if parts[0] != str(batch) or entry.name.endswith(".tmp"):
                continue
            with contextlib.suppress(OSError, ValueError), open(entry.path, encoding="ascii") as file:
                figures_by_operator, so_far = json.load(file)
                for uid, figures in so_far.items():
                    add_figures(figures_by_operator.setdefault(uid, {}), figures)
                figures_by_attempt[Attempt(*map(int, parts))] = figures_by_operator
    return figures_by_attempt


def clear(folder: str) -> None:
    """Removes what earlier micro-batches have left."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            os.unlink(entry.path)
