"""Golden cases with the rows of their tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.support.cases import Case
from tests.support.golden import GoldenCase

ROWS = Path(__file__).parent / "golden_rows"


@dataclass(frozen=True)
class RowCase(Case):
    """A golden case over the tables in :data:`ROWS`."""

    golden: GoldenCase

    def text(self, name: str) -> str:
        return self.golden.script if name == "script.sql" else (ROWS / name).read_text(encoding="utf-8")
