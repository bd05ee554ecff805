"""Every scalar function over the table of edge values, next to what Flink 2.3 answers.

``scripts/function_corpus.py`` asks Flink again. ``corpus/different.txt`` has what differs, with the reason. Nothing
that has a value in Flink fails here: the first test says so of what is equal, the second one of what differs.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stateplan.functions.table import functions
from tests.functions.calls import INTERNAL
from tests.functions.corpus.answers import Here
from tests.functions.corpus.expressions import expressions, templates
from tests.functions.corpus.reading import Key, different, same, shown

_TOGETHER = 40
_PARTS = 4


@cache
def _results() -> dict[Key, dict[str, Any]]:
    return {(r["zone"], r["expression"]): r for r in shown()}


def test_the_corpus_is_large() -> None:
    assert sum(len(r.get("values", ())) for r in _results().values()) >= 20_000
    known = {(zone, text) for zone, wanted in expressions().items() for _, text in wanted}
    assert known == _results().keys(), "python -m scripts.function_corpus --oracle DIR --missing"
    assert set(different()) <= known


OTHER_TESTS = {"ITEM", "NEGATE", "UNARY +", "PARSE_JSON", "TRY_PARSE_JSON"}
"""Operators without a name, and functions whose values have no text in Flink."""


def test_every_function_is_in_the_corpus() -> None:
    """But those whose values differ between two runs."""
    text = "\n".join(line for line in templates() if not line.startswith("# "))
    missing = [
        f.name
        for f in functions()
        if f.supported
        and f.deterministic
        and f.name not in {*INTERNAL, *OTHER_TESTS}
        and not any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) for name in (f.name, *f.aliases))
    ]
    assert not missing, f"add calls of {missing} to tests/functions/corpus/templates.txt"


def _groups(wanted: list[Key]) -> Iterator[tuple[str, list[str]]]:
    for zone, keys in itertools.groupby(wanted, key=lambda k: k[0]):
        texts = [text for _, text in keys]
        for start in range(0, len(texts), _TOGETHER):
            yield zone, texts[start : start + _TOGETHER]


@pytest.mark.parametrize("part", [0, *(pytest.param(i, marks=pytest.mark.long) for i in range(1, _PARTS))])
def test_values(part: int, tmp_path: Path) -> None:
    here = Here(tmp_path)
    wanted = [k for k, r in _results().items() if "values" in r and k not in different()]
    wrong: list[str] = []
    groups = list(_groups(wanted))
    for zone, texts in groups[part::_PARTS]:
        for text, answer in zip(texts, here.answers(zone, texts), strict=True):
            values = _results()[zone, text]["values"]
            if not isinstance(answer, list):
                wrong.append(f"{zone}: {text} fails: {answer}")
                continue
            pairs = zip(values, answer, strict=True)
            found = [(i, *pair) for i, pair in enumerate(pairs, start=1) if not same(*pair, text)]
            if found:
                wrong.append(f"{zone}: {text} (row, Flink, here): {found[:3]}")
    assert not wrong, "\n".join(wrong)


def test_what_is_said_to_differ_differs(tmp_path: Path) -> None:
    here = Here(tmp_path)
    equal = []
    for zone, texts in _groups(list(different())):
        for text, answer in zip(texts, here.answers(zone, texts), strict=True):
            values = _results()[zone, text]["values"]
            assert isinstance(answer, list), f"{text} fails: {answer}"
            if all(same(*pair, text) for pair in zip(values, answer, strict=True)):
                equal.append((zone, text))
    assert equal == []
