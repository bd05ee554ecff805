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
    names = [mark.args[0] for mark in item.iter_markers("parametrize")]
    firsts = [name.split(",")[0].strip() if isinstance(name, str) else name[0] for name in names]
    return not LONG and sum(item.callspec.indices[name] for name in firsts) % 2 == 1
