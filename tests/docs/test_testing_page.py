"""The page on testing is typed word for word, in a shell."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.pages import page_path
from tests.docs.walkthrough import Walkthrough

ROOT = Path(__file__).resolve().parents[2]
PAGE = page_path("testing").read_text(encoding="utf-8")


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Walkthrough]:
    played = Walkthrough(PAGE, tmp_path / "home", Path(sys.executable).parent, {"PYTHONPATH": str(ROOT)}, columns=130)
    yield played
    played.close()


def test_the_page(page: Walkthrough) -> None:
    page.play()
