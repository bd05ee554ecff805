"""Files that arrive one after another at a source, and a checkpoint whose last micro-batch runs again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any


def arrive(folder: Path, *rows: dict[str, Any]) -> None:
    """Writes a file of one row for each, in this order; ``id`` counts them from 1."""
    for row in rows:
        number = len(list(folder.iterdir())) + 1
        file = folder / f"{number}.json"
        file.write_text(json.dumps({"id": number, **row}) + "\n")
        os.utime(file, (number, number))  # files of one millisecond come in any order


def forget(log: Path, entry: int) -> None:
    """Removes an entry of one of Spark's logs."""
    for name in (f"{entry}", f".{entry}.crc"):
        (log / name).unlink(missing_ok=True)


def forget_the_last_commit(checkpoint: Path) -> None:
    """Has a restart repeat the last micro-batch."""
    commits = checkpoint / "spark" / "commits"
    forget(commits, max(int(p.name) for p in commits.iterdir() if p.name.isdigit()))
