"""Types the pages that show a terminal, and writes into them what is shown.

    python -m scripts.record_terminal [NAME ...]

Names choose some of the pages. See ``tests/docs/walkthrough.py`` for how such a page is written.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.harness import run
from scripts.pages import page_path
from tests.docs.walkthrough import Walkthrough

ROOT = Path(__file__).resolve().parent.parent
PAGES = {"tutorial": 150, "tutorial-stream": 220, "sql-client": 80, "changing-a-query": 150, "testing": 130}
"""Each page, with the columns of its terminal."""


def main(names: Annotated[list[str] | None, typer.Argument(metavar="NAME")] = None) -> None:
    """Types the pages that are named, or all of them."""
    unknown = sorted(set(names or ()) - set(PAGES))
    if unknown:
        raise typer.BadParameter(f"no page '{unknown[0]}' with a terminal; one of {', '.join(PAGES)}")
    for name in names or PAGES:
        page = page_path(name)
        with tempfile.TemporaryDirectory() as folder:
            played = Walkthrough(
                page.read_text(encoding="utf-8"),
                Path(folder) / "home",
                Path(sys.executable).parent,
                {"PYTHONPATH": str(ROOT)},
                columns=PAGES[name],
                correct=True,
                patience=60,
            )
            try:
                played.play()
            finally:
                played.close()
                page.write_text(played.corrected(), encoding="utf-8")


if __name__ == "__main__":
    run(main, __doc__)
