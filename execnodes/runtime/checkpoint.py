"""The checkpoint directory of a job: the plan that wrote it, the facts that state depends on, and Spark's own part.

``plan.json`` is the plan of the last run, ``stateplan.json`` what must not change over the life of the state,
``spark/`` Spark's checkpoint, ``splits/`` marker files of sources without files.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from execnodes.errors import CheckpointError, StateplanError

__all__ = ["Checkpoint", "RestartCheck", "default_key_groups"]

MIN_KEY_GROUPS = 8
"""Fewest key groups of a job that does not set ``pipeline.max-parallelism``."""


def default_key_groups(parallelism: int) -> int:
    """Key groups of a job that does not set ``pipeline.max-parallelism``: four per task, so that the job can grow to
    four times its parallelism. Each one costs some milliseconds per operator and micro-batch."""
    return max(MIN_KEY_GROUPS, 4 * parallelism)


RestartCheck = Callable[[str], None]
"""Given the text of the plan that wrote the checkpoint; raises CheckpointError when the new plan cannot continue."""

_FORMAT = 1


@dataclass
class Checkpoint:
    """An opened checkpoint directory.

    Attributes:
        folder: the directory.
        id: of the checkpoint, for the names of files that its jobs write.
        created: when it was made, in milliseconds since 1970.
        key_groups: into which state is split.
        temporary: whether it is removed when the job ends.
        resumed: whether an earlier run wrote to it.
    """

    folder: Path
    id: str
    created: int
    key_groups: int
    temporary: bool
    resumed: bool

    @property
    def spark(self) -> str:
        return str(self.folder / "spark")

    @property
    def splits(self) -> Path:
        return self.folder / "splits"

    @staticmethod
    def open(options: Mapping[str, str], plan_text: str, check: RestartCheck | None) -> Checkpoint:
        """Opens ``execution.checkpointing.dir``, or a temporary directory where it is not set.

        Raises:
            CheckpointError: CKPT001, the directory cannot be used; CKPT002, it is not a checkpoint; CKPT003, it was
                written by another plan (from ``check``); CKPT004, another number of key groups; CKPT005, damaged.
        """
        given = options.get("execution.checkpointing.dir")
        wanted = options.get("pipeline.max-parallelism")
        groups = (
            int(wanted)
            if wanted and int(wanted) > 0
            else default_key_groups(int(options.get("parallelism.default", "2")))
        )
        if not given:
            folder = Path(tempfile.mkdtemp(prefix="stateplan-"))
            return Checkpoint(folder, uuid.uuid4().hex[:12], _now(), groups, temporary=True, resumed=False)
        folder = Path(given.removeprefix("file://")).absolute()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            entries = {p.name for p in folder.iterdir()}
        except OSError as cause:
            raise CheckpointError(
                "CKPT001",
                f"the checkpoint directory {folder} cannot be used: {cause.strerror}",
                expected="a directory that can be written",
            ) from cause
        facts_file, plan_file = folder / "stateplan.json", folder / "plan.json"
        if not entries:
            fresh = Checkpoint(folder, uuid.uuid4().hex[:12], _now(), groups, temporary=False, resumed=False)
            facts = {"format": _FORMAT, "id": fresh.id, "created": fresh.created, "keyGroups": groups}
            _write(facts_file, json.dumps(facts) + "\n")
            _write(plan_file, plan_text)
            return fresh
        if "stateplan.json" not in entries:
            raise CheckpointError(
                "CKPT002",
                f"the directory {folder} is not a checkpoint of stateplan",
                expected="an empty directory, or one that an earlier run wrote",
                hint="set another 'execution.checkpointing.dir'",
            )
        try:
            facts = json.loads(facts_file.read_text())
            version, stored = facts["format"], int(facts["keyGroups"])
            known = Checkpoint(folder, str(facts["id"]), int(facts["created"]), stored, temporary=False, resumed=True)
        except (OSError, ValueError, KeyError, TypeError) as cause:
            raise CheckpointError(
                "CKPT005",
                f"{facts_file} is damaged ({cause})",
                hint="restore the checkpoint directory from a copy, or start from an empty one",
            ) from cause
        if version != _FORMAT:
            raise CheckpointError(
                "CKPT005",
                f"the checkpoint {folder} has format {version}",
                expected=f"format {_FORMAT}",
                hint="use the version of stateplan that wrote it",
            )
        if wanted and int(wanted) > 0 and groups != stored:
            raise CheckpointError(
                "CKPT004",
                f"the checkpoint {folder} has {stored} key groups, 'pipeline.max-parallelism' is {groups}",
                expected=f"{stored}, for the whole life of the state",
                hint="remove the option",
            )
        if plan_file.exists():
            old = plan_file.read_text()
            if check is not None and old != plan_text:
                try:
                    check(old)
                except CheckpointError:
                    raise
                except StateplanError as cause:
                    raise CheckpointError(
                        "CKPT005",
                        f"{plan_file} is damaged: {cause.message}",
                        hint="restore it from a copy, or start from an empty directory",
                    ) from cause
        _write(plan_file, plan_text)
        return known

    def close(self) -> None:
        """Removes a temporary checkpoint."""
        if self.temporary:
            with contextlib.suppress(OSError):
                shutil.rmtree(self.folder)


def _write(path: Path, text: str) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(path)


def _now() -> int:
    return time.time_ns() // 1_000_000
