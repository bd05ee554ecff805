"""What a worker has imported is left out of the garbage collection that follows every task."""

from __future__ import annotations

import gc

import pytest

from stateplan.runtime.spark import query as spark


def test_what_the_first_tasks_leave_is_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "_tasks", 0)
    calls: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(spark._tasks))
    for _ in range(100):
        spark._settle()
    # the first task imports what all of them need; nothing is set aside once a worker has long been running
    assert calls[0] == 2
    assert 1 < len(calls) < 5
    assert calls[-1] < 50
