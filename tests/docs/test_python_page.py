"""The page on Python: its examples are run, and give what it shows."""

from __future__ import annotations

import doctest
import re

import pytest

from scripts.pages import page_path

PAGE = page_path("python")


@pytest.mark.spark
def test_the_page(spark: object) -> None:
    text = PAGE.read_text(encoding="utf-8")
    examples = "".join(re.findall(r"```python\n(>>> .*?)```", text, re.S))
    test = doctest.DocTestParser().get_doctest(examples, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 10
    told: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=told.append)
    assert not told, "".join(told)
