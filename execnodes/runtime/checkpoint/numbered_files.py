"""Files and folders of Spark's checkpoint have numbers for names: of micro-batches, operators, partitions."""

from __future__ import annotations

from pathlib import Path


def numbers(folder: Path) -> list[int]:
    """The numbers that entries of a folder have for names, ascending; none where it cannot be read."""
    try:
        return _numbers(folder)
    except OSError:
        return []


def last_number(folder: Path) -> int:
    """The largest of :func:`numbers`, -1 for none."""
    return max(numbers(folder), default=-1)


def last_batch(log: Path) -> int:
    """The last micro-batch in a log of Spark's (``offsets``: begun, ``commits``: done); -1 for none.

    Raises:
        OSError: the log is there and cannot be read.
    """
    return max(_numbers(log), default=-1) if log.is_dir() else -1


def _numbers(folder: Path) -> list[int]:
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdecimal())
