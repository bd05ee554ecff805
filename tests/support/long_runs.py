"""What the suite leaves to long runs: the same kinds of cases, fewer of each."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")

LONG = bool(os.environ.get("STATEPLAN_LONG"))
"""Whether tests run that take minutes, and others in all of their variants."""


def share(cases: Iterable[Case], one_in: int, kind: Callable[[Case], Hashable] = lambda _: None) -> list[Case]:
    """All cases in a long run, else of each kind the first one, and one in so many after it."""
    seen: dict[Hashable, int] = {}
    chosen = []
    for case in cases:
        number = seen[kind(case)] = seen.get(kind(case), -1) + 1
        if LONG or number % one_in == 0:
            chosen.append(case)
    return chosen


def is_left_out(item: pytest.Function) -> bool:
    """Whether a test that is marked as halved is left to long runs: of the combinations of its parameters, every second
    one is, so that all values of each parameter are tried, and each with several of the others."""
    number, places = next(iter(item.callspec.indices.values())), 0  # of the combination: the last parameter goes first
    for mark in reversed(list(item.iter_markers("parametrize"))):
        number, place = divmod(number, len(mark.args[1]))
        places += place
    return not LONG and places % 2 == 1
