"""How long a run of dbt waits for a job that it has started."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore")


class Gateway:
    """The answers to DESCRIBE JOB EXTENDED, one after the other.

    Attributes:
        answers: those that nobody has had yet: the status, the last micro-batch, and whether the job is idle.
    """

    def __init__(self, *answers: tuple[str, int | None, bool]) -> None:
        self.answers = list(answers)

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        assert statement == "DESCRIBE JOB EXTENDED 'j'"
        status, batch, is_idle = self.answers.pop(0)
        return [("j", "name", status, "now", None, "checkpoint", batch, is_idle, "{}")]


@pytest.mark.parametrize(
    "last",
    [("RUNNING", 7, False), ("RUNNING", None, True), ("FINISHED", None, False)],
    ids=["a micro-batch", "no input", "an end"],
)
def test_it_waits_until(
    last: tuple[str, int | None, bool], dbt_packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dbt.adapters.stateplan import streaming

    monkeypatch.setattr(streaming, "_PAUSE", 0)
    gateway = Gateway(("RUNNING", None, False), ("RUNNING", None, False), last)
    credentials: Any = type("Credentials", (), {"wait_seconds": 1e9})
    tables: Any = None
    streaming.StreamingTables(gateway.rows, credentials, tables)._await("j")
    assert gateway.answers == []
