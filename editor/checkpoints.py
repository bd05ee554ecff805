"""What the checkpoints of a workspace say of the states of a plan. Their metrics are read, without Spark, and their
state is not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import ago, bytes_text
from stateplan.common.ttl import format_ttl
from stateplan.plans.document import PlanDocument
from stateplan.plans.states import StateView
from stateplan.runtime.metrics.log import recent_metrics
from stateplan.runtime.metrics.records import BatchMetrics
from stateplan.runtime.metrics.state_uses import StateUses

_DEPTH = 5
_MOST_FOLDERS = 3_000
_MARK, _PLAN = "stateplan.json", "plan.json"
_FRESH = 5.0
"""Seconds for which nothing is looked up again."""


@dataclass(frozen=True)
class Records:
    """What a checkpoint has recorded.

    Attributes:
        folder: the checkpoint.
        uids: the operators of its plan.
        last: the record of the last micro-batch.
        uses: how rows of state were used.
    """

    folder: Path
    uids: frozenset[str]
    last: BatchMetrics
    uses: StateUses

    def cost(self, view: StateView) -> str | None:
        """What the TTL of a state costs, in a line; None if nothing is recorded about it."""
        size = self.last.state.get(view.uid)
        if size is None or view.index >= len(size.rows):
            return None
        rows, byte_count = size.rows[view.index], size.bytes[view.index]
        parts = [f"{rows:,} {'row' if rows == 1 else 'rows'}, {bytes_text(byte_count)}"]
        uses = self.uses.all_uses(view.uid, view.index)
        if uses.total:
            parts.append(f"misses {uses.missed(view.ttl):,} of {uses.total:,} uses (oldest {ago(uses.oldest, 0)})")
        return "; ".join([*parts, f"micro-batch {self.last.batch} of {self.folder.name}"])


class Checkpoints:
    """Finds the checkpoint of a plan in a workspace.

    Args:
        folders: the folders of the workspace.
    """

    def __init__(self, folders: Iterable[Path]) -> None:
        self._folders = tuple(folders)
        self._records: dict[Path, tuple[float, Records | None]] = {}
        self._folder_cache: tuple[float, list[Path]] = (0.0, [])

    def of(self, document: PlanDocument) -> Records | None:
        """The newest checkpoint that has state of the operators of a plan."""
        uids = {document.uids[node.id] for node in document.graph.nodes if node.state_names}
        records = [r for folder in self._checkpoints() if (r := self._read(folder)) is not None and r.uids & uids]
        return max(records, key=lambda r: (len(r.uids & uids), r.last.time), default=None)

    def _checkpoints(self) -> list[Path]:
        at, checkpoint_folders = self._folder_cache
        if not at or time.monotonic() - at > _FRESH:
            checkpoint_folders = [path for folder in self._folders for path in _find(folder)]
            self._folder_cache = (time.monotonic(), checkpoint_folders)
        return checkpoint_folders

    def _read(self, folder: Path) -> Records | None:
        at, records = self._records.get(folder, (0.0, None))
        if at and time.monotonic() - at <= _FRESH:
            return records
        try:
            metrics = recent_metrics(folder)
            document = PlanDocument.from_bytes((folder / _PLAN).read_bytes())
            uids = frozenset(document.uids.values())
            records = Records(folder, uids, metrics[-1], StateUses.of(metrics)) if metrics else None
        except (StateplanError, OSError, ValueError):
            records = None
        self._records[folder] = (time.monotonic(), records)
        return records


def _find(folder: Path) -> Iterator[Path]:
    """The checkpoints below a folder."""
    for count, (root, folders, files) in enumerate(os.walk(folder)):
        depth = len(Path(root).relative_to(folder).parts)
        if _MARK in files and not Path(root, _PLAN).is_symlink():
            yield Path(root)
            folders.clear()
        elif depth >= _DEPTH or count > _MOST_FOLDERS:
            folders.clear()
        else:
            folders[:] = sorted(
                f for f in folders if not f.startswith(".") and f not in ("node_modules", "__pycache__")
            )


def cost_line(selector: str, view: StateView, records: Records | None) -> str:
    """What a lens above a state says."""
    ttl = "no TTL" if view.ttl == 0 else f"TTL {format_ttl(view.ttl)}"
    cost = None if records is None else records.cost(view)
    return f"{selector}: {ttl}; {cost or 'size unknown: no checkpoint'}"
