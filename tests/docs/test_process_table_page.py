"""The page on process table functions: its examples are run, and give what it shows."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from scripts.pages import page_path

PAGE = page_path("process-table-functions")


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_page(tmp_path: Path) -> None:
    """Its file is in another folder, as the JVM may have been started anywhere; few parts of state are quicker."""
    text = PAGE.read_text(encoding="utf-8").replace("clicks.csv", str(tmp_path / "clicks.csv"))
    text = text.replace("TableEnvironment.create()", 'TableEnvironment.create({"pipeline.max-parallelism": "2"})')
    examples = "".join(re.findall(r"```python\n(>>> .*?)```", text, re.S))
    test = doctest.DocTestParser().get_doctest(examples, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 15
    told: list[str] = []
    doctest.DocTestRunner().run(test, out=told.append)
    assert not told, "".join(told)
