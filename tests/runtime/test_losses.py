"""Retractions that found nothing are told once per operator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from stateplan.runtime.notices import Notices


def test_each_operator_is_named_once_with_its_count() -> None:
    said: list[str] = []
    operators: Any = [SimpleNamespace(uid="a", name="join[3]"), SimpleNamespace(uid="b", name="sink[4]")]
    losses = Notices(operators, None, said.append)
    losses.look({"a": {"rows_in": 5.0, "retractions_missed": 0.0}})
    assert said == []
    losses.look({"a": {"retractions_missed": 2.0}, "b": {"retractions_missed": 1.0}, "scan": {"rows_in": 1.0}})
    losses.look({"a": {"retractions_missed": 7.0}, "b": {"retractions_missed": 1.0}})
    assert [line.split(" found")[0] for line in said] == ["join[3]: 2 retractions", "sink[4]: 1 retraction"]
