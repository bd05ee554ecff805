"""What was measured: one JSON object a line, so that a run that ended goes on where it was."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.conftest import ROOT

QUIET = 0.7
"""A machine whose load over the last minute is lower has nothing else to do."""


@dataclass(frozen=True)
class Cell:
    """What is measured.

    Attributes:
        part: a part of the survey.
        case: what is done, such as a query.
        peer: who does it.
        size: how large its input is, in words; empty where it has no size.
    """

    part: str
    case: str
    peer: str
    size: str = ""


@dataclass(frozen=True)
class Record:
    """What was measured once.

    Attributes:
        cell: what.
        figures: by name with its unit, such as ``wall s``.
        failure: why there are none.
        load: the load of the machine over the minute before.
        commit: of this project.
        when: seconds since the epoch.
    """

    cell: Cell
    figures: dict[str, float]
    failure: str = ""
    load: float = 0.0
    commit: str = ""
    when: float = field(default_factory=time.time)


class Ledger:
    """The records of a folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / "records.jsonl"
        self.records: list[Record] = []
        if self.path.exists():
            for line in self.path.read_text(encoding="utf-8").splitlines():
                fields = json.loads(line)
                self.records.append(Record(**{**fields, "cell": Cell(**fields["cell"])}))

    def rounds(self, cell: Cell) -> int:
        """How often a cell was measured, or has failed."""
        return sum(record.cell == cell for record in self.records)

    def add(self, cell: Cell, figures: dict[str, float], failure: str, load: float) -> Record:
        """Writes a record down."""
        record = Record(cell, figures, failure, load, _commit())
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(asdict(record)) + "\n")
        self.records.append(record)
        return record

    def medians(self, cell: Cell) -> dict[str, float]:
        """The median of each figure over the rounds of a cell; empty where there are none."""
        rounds = [record.figures for record in self.records if record.cell == cell and not record.failure]
        return {name: statistics.median(one[name] for one in rounds if name in one) for name in _names(rounds)}

    def failure(self, cell: Cell) -> str:
        """Why a cell has no figures; empty if it has."""
        reasons = [record.failure for record in self.records if record.cell == cell]
        return reasons[-1] if reasons and all(reasons) else ""

    def cells(self, part: str) -> Iterator[Cell]:
        """The cells of a part, each once."""
        yield from dict.fromkeys(record.cell for record in self.records if record.cell.part == part)


def _names(rounds: list[dict[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for one in rounds for name in one))


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def wait_until_quiet(patience: float) -> float:
    """Waits until the machine has nothing else to do, at most ``patience`` seconds; the load then."""
    until = time.monotonic() + patience
    while os.getloadavg()[0] > QUIET and time.monotonic() < until:
        time.sleep(2)
    return os.getloadavg()[0]
