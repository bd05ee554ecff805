"""What commands on a job look at."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

from stateplan.cli.job.top_text import line, table_text, to_json
from stateplan.execnodes.errors import RunError, StateplanError
from stateplan.execnodes.runtime.metrics.view import JobView, Watcher
from stateplan.execnodes.runtime.spark.hadoop import checkpoint_path


def look_at(checkpoint: str, options: Mapping[str, str]) -> tuple[Watcher, JobView]:
    """The job of the checkpoint that the argument CHECKPOINT names.

    Raises:
        CheckpointError: CKPT001, CKPT002, there is no such checkpoint; CKPT029, nobody has left figures in it.
    """
    watcher = Watcher(checkpoint_path(checkpoint, options))
    view = watcher.look()
    if view is None:
        raise RunError("RUN085", checkpoint=checkpoint)
    return watcher, view


class Look:
    """A job, looked at as often as wanted. Raises as :func:`look_at`."""

    def __init__(self, checkpoint: str, options: Mapping[str, str]) -> None:
        self._folder = checkpoint_path(checkpoint, options)
        self._watcher, self._view = look_at(checkpoint, options)
        self._labels = self._selectors()

    def again(self) -> None:
        """Looks again."""
        view = self._watcher.look()
        if view is not None:
            if view.info.operators != self._view.info.operators:
                self._labels = self._selectors()
            self._view = view

    @property
    def running(self) -> bool:
        return self._view.writer is not None

    @property
    def batch(self) -> int:
        """The last micro-batch that was committed, -1 before the first."""
        return self._view.last.batch if self._view.last else -1

    def text(self, width: int = 0) -> str:
        return table_text(self._view, self._labels, width)

    def line(self) -> str:
        return line(self._view)

    def data(self) -> dict[str, Any]:
        return to_json(self._view, self._labels)

    def _selectors(self) -> dict[tuple[int, int], str]:
        """What states are called on other command lines; nothing where the plan cannot be read."""
        from stateplan.plans.live import plan_in
        from stateplan.plans.selectors import Selectors

        with contextlib.suppress(StateplanError):
            selectors = Selectors(plan_in(self._folder))
            return {(view.node_id, view.index): selectors.name_alone(view) for view in selectors.views}
        return {}
