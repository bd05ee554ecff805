"""The tutorial with Kafka and PostgreSQL is typed word for word, and shows what it says."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from examples.stream.servers import TABLES
from scripts.pages import page_path
from tests.docs.walkthrough import Walkthrough, parts

ROOT = Path(__file__).resolve().parents[2]
PAGE = page_path("tutorial-stream").read_text(encoding="utf-8")


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Walkthrough]:
    played = Walkthrough(PAGE, tmp_path / "home", Path(sys.executable).parent, {"PYTHONPATH": str(ROOT)}, 220)
    yield played
    played.close()


def test_it_types_the_scripts_of_the_demonstration() -> None:
    """``make demo-stream`` runs the same tables and the same query."""
    typed = [part.text for part in parts(PAGE) if part.kind == "sql"]
    tables = (ROOT / "examples" / "stream" / "tables.sql").read_text(encoding="utf-8")
    query = (ROOT / "examples" / "stream" / "product_stats.sql").read_text(encoding="utf-8")
    assert [text for text in typed if text.startswith("CREATE")] == re.findall(r"^CREATE.*?^\);\n", tables, re.M | re.S)
    assert "COMPILE PLAN 'plan.json' FOR\n" + query[query.index("INSERT") :] in typed
    assert "".join(f"{statement};\n" for statement in TABLES) in PAGE


@pytest.mark.long
@pytest.mark.spark
def test_the_tutorial(tutorial: Walkthrough) -> None:
    tutorial.play()
