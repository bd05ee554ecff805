"""A revision of a git repository as files, beside the working tree, which stays as it is."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Revision:
    """The files of a revision.

    Attributes:
        commit: the commit whose files they are: where the branch left the revision, or the revision itself.
        name: the revision as the user wrote it.
        folder: what has the place of the present folder.
        has_left: whether ``commit`` is where the branch left the revision.
    """

    commit: str
    name: str
    folder: Path
    has_left: bool


@contextmanager
def checkout(name: str) -> Iterator[Revision]:
    """The files of the commit at which the present branch left the revision ``name``. They are in a temporary folder.

    The index and the working tree of the repository stay as they are.

    Raises:
        StateplanError: REV002, no git, no repository, or no such revision.
    """
    top = Path(_git("rev-parse", "--show-toplevel", failure="REV002.no_repository"))
    commit = _git(
        "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}", failure="REV002", name=name
    )
    try:
        base, has_left = _git("merge-base", commit, "HEAD", failure="REV002", name=name), True
    except StateplanError:  # of a shallow clone, or of another history
        base, has_left = commit, False
    with tempfile.TemporaryDirectory(prefix="stateplan-review-") as scratch:
        files = Path(scratch) / "files"
        files.mkdir()
        environment = {"GIT_INDEX_FILE": str(Path(scratch) / "index"), "GIT_LFS_SKIP_SMUDGE": "1"}
        _git("read-tree", base, failure="REV002", name=name, environment=environment, folder=top)
        options = ("--all", "--force", "--quiet", f"--prefix={files}/")
        _git("checkout-index", *options, failure="REV002", name=name, environment=environment, folder=top)
        folder = files / Path.cwd().resolve().relative_to(top.resolve())
        folder.mkdir(parents=True, exist_ok=True)  # the folder may be new
        yield Revision(base, name, folder, has_left)


def _git(
    *words: str,
    failure: str,
    name: str = "",
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
) -> str:
    """What a command of git prints. Raises StateplanError, with the code ``failure``."""
    try:
        process = subprocess.run(
            ["git", *words],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **(environment or {})},
            cwd=folder,
        )
    except OSError as cause:
        raise StateplanError("REV002.no_git", why=cause.strerror or cause) from cause
    if process.returncode:
        why = (process.stderr.strip().splitlines() or ["no such commit"])[-1]
        raise StateplanError(failure, name=name, why=why, folder=os.getcwd())
    return process.stdout.strip()
