"""Pages of the documentation by their names: no two pages have the same one, so texts in the code write a link as
``[catalogs](catalogs.md)``, in whichever folder that page is."""

from __future__ import annotations

import os
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(?<=\]\()([\w-]+)\.md(?=[#)])")


def page_path(name: str) -> Path:
    """The page ``NAME.md``, in whichever folder of ``docs`` it is."""
    (page,) = (ROOT / "docs").rglob(f"{name}.md")
    return page


def linked(text: str, page: Path) -> str:
    """``text`` with the links to pages by their names, as ``page`` writes them."""
    return _LINK.sub(lambda m: os.path.relpath(page_path(m[1]), page.parent), text)
