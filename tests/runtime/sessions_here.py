"""Sessions whose jobs run in this process, and tables for them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from stateplan.runtime import start
from stateplan.runtime.job import Job
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from stateplan.session.results import TableResult
from tests.support import waiting


class SparkError(BaseException):
    """Raised where a job of Spark would have begun."""


def refuse_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Makes a test fail with :class:`SparkError` where a job of Spark would begin."""

    def refuse(*_: object, **__: object) -> None:
        raise SparkError

    monkeypatch.setattr(start, "execute", refuse)
    if "pyspark" in sys.modules:  # a Spark that another test of this process started
        monkeypatch.setattr("pyspark.SparkContext._active_spark_context", None)


def session(options: dict[str, str] | None = None, **more: Any) -> TableEnvironment:
    return TableEnvironment.create({"table.local-time-zone": "UTC", **(options or {})}, jobs=Jobs(), **more)


def write(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def table(
    env: TableEnvironment, name: str, columns: str, path: Path, connector: str = "filesystem", **more: str
) -> None:
    create(env, name, columns, {"connector": connector, "path": str(path), "format": "json", **more})


def create(env: TableEnvironment, name: str, columns: str, options: Mapping[str, str]) -> None:
    with_options = ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
    env.execute_sql(f"CREATE TABLE {name} ({columns}) WITH ({with_options})")


def changes(result: TableResult) -> list[tuple[str, tuple[object, ...]]]:
    return [(row.get_row_kind().short, tuple(row)) for row in result.collect()]


def job_of(result: TableResult) -> Job:
    assert result.job is not None
    return result.job


def until(true: Callable[[], object], what: str) -> None:
    """Waits up to a minute until something holds."""
    waiting.until(true, 60, what)
