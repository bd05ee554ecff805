"""Checks that workers on other machines can access what a job reads and writes, before it reads a row.

Code: CKPT008, and those of the connectors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.roots import Roots, holding
from stateplan.connectors.protocol import Sink, Source
from stateplan.runtime.checkpoint.directory import Checkpoint
from stateplan.runtime.checkpoint.savepoint import FACTS
from stateplan.runtime.jobgraph import JobGraph


@dataclass(frozen=True)
class AccessCheck:
    """The check that a worker runs. Picklable.

    Attributes:
        sources: name and source of each table that is read.
        sinks: name and sink of each table that is written.
        checkpoint: its id, for a name that only this job knows.
        folder: the folder of the checkpoint; None if only Spark's JVM reads it.
        roots: the roots of the job.
    """

    sources: tuple[tuple[str, Source[Any]], ...]
    sinks: tuple[tuple[str, Sink], ...]
    checkpoint: str
    folder: Path | None
    roots: Roots | None = None

    def __call__(self) -> None:
        """Runs in a worker. Raises a StateplanError for anything that this machine cannot access."""
        if self.folder is not None:
            try:
                checkpoint_id = json.loads((self.folder / FACTS).read_text())["id"]
            except (OSError, ValueError, KeyError, TypeError):
                checkpoint_id = None
            if checkpoint_id != self.checkpoint:
                raise CheckpointError("CKPT008", folder=self.folder)
        with holding(self.roots):
            for name, source in self.sources:
                source.check(name)
            for name, sink in self.sinks:
                sink.check(name, self.checkpoint)


def access_check(job: JobGraph, checkpoint: Checkpoint) -> AccessCheck:
    """The check for the workers of a job. Each sink leaves a mark that they look for."""
    sinks = tuple((sink.name, sink.writer) for sink in job.sinks)
    for _, sink in sinks:
        sink.announce(checkpoint.id)
    folder = checkpoint.folder
    return AccessCheck(
        tuple((s.name, s.reader) for s in job.sources),
        sinks,
        checkpoint.id,
        folder if isinstance(folder, Path) else None,
        job.roots,
    )
