"""Changed queries over bounded input, with which event time ends. ``scripts.changed_queries`` runs many more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.changes import MORE
from tests.support.changes.running import Change, differences, side_of
from tests.support.long_runs import share

pytestmark = pytest.mark.spark

PAIRS = (
    "aggregate added to a window",
    "range of an OVER window",
    "best of a window",
    "bounds of an interval join",
    "filter and join type",
    "group key, aggregates and filter",
)


def test_what_ended_with_the_input_does_not_end_again(spark: object, tmp_path: Path) -> None:
    before, after = (side_of({name: MORE[name][place] for name in share(PAIRS, 2)}) for place in (0, 1))
    assert differences(Change(tmp_path, seed=1, ends=True), before, after, (2, 3)) == {}
