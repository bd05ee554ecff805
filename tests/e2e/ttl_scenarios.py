"""Queries with two states, and what each prints when one state expires sooner."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from stateplan.runtime.job import Job

SHORT, LONG = "1 s", "1 h"
LATER = 2_000
"""Milliseconds between the first rows and the later ones: the short TTL is over, the long one is not."""

Rows = Mapping[str, list[dict[str, int]]]
"""Table -> rows."""


@dataclass(frozen=True)
class Scenario:
    """A query with two states and what it prints for later rows.

    Attributes:
        query: the SELECT; ``{hint[0]}`` and ``{hint[1]}`` are where the hints go.
        states: the two states: type of the node and number among those of the type, and the slot.
        first, later: rows.
        before: changes that the first rows make.
        short_long, long_short: changes that the later rows make when the first state has the short TTL and the second
            the long one, and the other way round.
    """

    query: str
    states: tuple[tuple[str, int, int], tuple[str, int, int]]
    first: Rows
    later: Rows
    before: list[str]
    short_long: list[str]
    long_short: list[str]


# A row that the forgotten key lets through is counted again; counts that are forgotten begin anew.
CHAIN = Scenario(
    """SELECT g, COUNT(*) FROM (
        SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS n FROM a) WHERE n = 1 GROUP BY g""",
    (("deduplicate", 0, 0), ("group-aggregate", 0, 0)),
    {"a": [{"k": 1, "g": 7}, {"k": 2, "g": 7}]},
    {"a": [{"k": 1, "g": 7}, {"k": 3, "g": 7}]},
    ["+I[7, 2]"],
    ["-U[7, 2]", "+U[7, 4]"],
    ["+I[7, 1]"],
)
# How many keys were seen how often. A count that is retracted after it was forgotten is let go.
COUNTS = Scenario(
    """SELECT {hint[1]} c, COUNT(*) FROM (SELECT {hint[0]} k, COUNT(*) AS c FROM b GROUP BY k) AS s GROUP BY c""",
    (("group-aggregate", 0, 0), ("group-aggregate", 1, 0)),
    {"b": [{"k": 1, "g": 7}, {"k": 2, "g": 7}]},
    {"b": [{"k": 1, "g": 7}]},
    ["+I[1, 2]"],
    ["-U[1, 2]", "+U[1, 3]"],
    ["+I[2, 1]"],
)
JOIN = Scenario(
    "SELECT {hint[0]} l.k, r.g FROM l JOIN r ON l.k = r.k",
    (("join", 0, 0), ("join", 0, 1)),
    {"l": [{"k": 1, "g": 10}], "r": [{"k": 2, "g": 20}]},
    {"l": [{"k": 2, "g": 12}], "r": [{"k": 1, "g": 21}]},
    [],
    ["+I[2, 20]"],
    ["+I[1, 21]"],
)


def wait_until(job: Job, reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not reached():
        assert job.is_active and time.monotonic() < deadline, "the job did not get there"
        time.sleep(0.1)
