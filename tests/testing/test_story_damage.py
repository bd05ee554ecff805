"""Whatever a test file contains, its tests end with a result, or with an error that has a code and a place."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.testing.play import run_case
from stateplan.testing.reader import read_story

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "examples" / "tests").glob("*.sql"))
_JUNK = (
    "|",
    "--",
    "given",
    "expect",
    "+I",
    "NULL",
    '"',
    "'",
    "{",
    "1 h",
    "never",
    ";",
    ")",
    "9" * 30,
    "\0",
    "csv",
    "VALUES",
)


def damage(lines: list[str], source: random.Random) -> None:
    """Changes a line: it is gone, doubled elsewhere, cut, or has another word."""
    place = source.randrange(len(lines))
    kind = source.randrange(4)
    if kind == 0 and len(lines) > 1:
        del lines[place]
    elif kind == 1:
        lines.insert(place, source.choice(lines))
    elif kind == 2:
        lines[place] = lines[place][: source.randrange(len(lines[place]) + 1)]
    else:
        words = lines[place].split(" ")
        words[source.randrange(len(words))] = source.choice(_JUNK)
        lines[place] = " ".join(words)


@pytest.mark.parametrize("seed", range(8))
def test_a_damaged_file_is_no_bug(seed: int) -> None:
    source = random.Random(seed)
    for _ in range(10):
        lines = source.choice(FILES).read_text().split("\n")
        for _ in range(source.randint(1, 3)):
            damage(lines, source)
        try:
            story = read_story("\n".join(lines), "story.sql")
        except StateplanError as error:
            assert error.place is not None and error.place.line is not None, error
            continue
        for case in story.cases:
            error_of_case = run_case(case, {}).error
            assert error_of_case is None or error_of_case.place is not None
