"""Runs the tests in a text."""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.testing.checks import Verdict
from stateplan.testing.play import Outcome, run_case
from stateplan.testing.reader import read_story
from stateplan.testing.story import Case

JOIN = """\
CREATE TABLE orders (id INT, num INT);
CREATE TABLE logistics (id INT, target STRING);
CREATE TABLE tracking (id INT, num INT, target STRING);
INSERT INTO tracking
SELECT /*+ STATE_TTL('o' = '7 d', 'l' = '12 h') */ o.id, num, target
FROM orders AS o JOIN logistics AS l ON o.id = l.id;
"""

COUNT = """\
CREATE TABLE sales (product STRING, num INT);
CREATE TABLE totals (product STRING, total INT);
INSERT INTO totals SELECT product, SUM(num) FROM sales GROUP BY product;
"""


def cases(text: str, file: str = "story.sql") -> list[Case]:
    """The tests of a text."""
    return list(read_story(text, file).cases)


def outcomes(text: str, options: Mapping[str, str] | None = None, file: str = "story.sql") -> list[Outcome]:
    """What becomes of the tests of a text."""
    return [run_case(case, options or {}) for case in cases(text, file)]


def outcome(text: str, options: Mapping[str, str] | None = None, file: str = "story.sql") -> Outcome:
    """What becomes of the only test of a text."""
    (only,) = outcomes(text, options, file)
    return only


def holds(text: str, options: Mapping[str, str] | None = None, file: str = "story.sql") -> bool:
    """Whether the only test of a text holds; raises what ends it."""
    result = outcome(text, options, file)
    if result.error is not None:
        raise result.error
    return result.holds


def failure(text: str) -> Verdict:
    """The only expectation of a text that does not hold."""
    result = outcome(text)
    assert result.error is None, result.error
    (only,) = result.failures
    return only
