"""What the JVM of a job says about the classes that it loads."""

from __future__ import annotations

from pathlib import Path


def logging_classes(log: Path) -> str:
    """The argument of a command whose JVM writes into ``log``."""
    return f"-Dspark.driver.extraJavaOptions=-Xlog:class+load:file={log}"


def loaded_classes(log: Path) -> tuple[int, int]:
    """How many classes came from the archive, and how many from elsewhere."""
    sources = [line.split(" source: ")[-1] for line in log.read_text().splitlines()]
    archived = sum(source == "shared objects file (top)" for source in sources)
    return archived, len(sources) - archived
