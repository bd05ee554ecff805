"""The page on the SQL client shows its screens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages import page_path
from tests.docs.walkthrough import Walkthrough

ROOT = Path(__file__).resolve().parents[2]
PAGE = page_path("sql-client").read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Walkthrough]:
    bin_ = Path(sys.executable).parent
    played = Walkthrough(PAGE, tmp_path / "home", bin_, {"PYTHONPATH": str(ROOT)}, columns=80, patience=60)
    yield played
    played.close()


def test_the_page(page: Walkthrough) -> None:
    page.play()
