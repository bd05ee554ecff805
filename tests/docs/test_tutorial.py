"""The tutorial is typed word for word, in a shell and at the prompt of the SQL client, and shows what it says."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from scripts.pages import page_path
from tests.docs.walkthrough import Walkthrough, parts

ROOT = Path(__file__).resolve().parents[2]
PAGE = page_path("tutorial").read_text(encoding="utf-8")


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Walkthrough]:
    played = Walkthrough(PAGE, tmp_path / "home", Path(sys.executable).parent, {"PYTHONPATH": str(ROOT)})
    yield played
    played.close()


def test_it_needs_nothing_of_the_repository() -> None:
    typed = "".join(part.text for part in parts(PAGE) if part.kind in ("sh", "sql"))
    assert "stateplan sql" in typed
    assert not [word for word in ("examples/", "docs/", "scripts/", "python", "make ") if word in typed]


@pytest.mark.long
@pytest.mark.spark
def test_the_tutorial(tutorial: Walkthrough) -> None:
    def page() -> None:
        (job,) = httpx.get(f"{tutorial.url}/page/jobs").json()["jobs"]
        assert (job["name"], job["status"]) == ("shop", "RUNNING")

    tutorial.play({"page": page})
