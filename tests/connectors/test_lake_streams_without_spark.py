"""Queries over Delta and Iceberg tables that grow, in this process: without Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from stateplan.runtime.local.job import LocalJob
from tests.connectors import iceberg_tables
from tests.runtime.sessions_here import create, refuse_spark, session
from tests.support import delta


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_spark(monkeypatch)


LAKES: dict[str, tuple[Callable[..., object], dict[str, str]]] = {
    "delta": (delta.append, {"mode": "streaming", "updateCheckIntervalMillis": "20"}),
    "iceberg": (iceberg_tables.append, {"streaming": "true", "monitor-interval": "20 ms"}),
}


@pytest.mark.parametrize("lake", LAKES)
def test_rows_are_seen_as_they_come(lake: str, tmp_path: Path) -> None:
    append, more = LAKES[lake]
    if lake == "iceberg":
        more = {**more, "starting-strategy": "TABLE_SCAN_THEN_INCREMENTAL"}
    append(tmp_path, (1, "a"), (2, "b"))
    append(tmp_path, (3, "a"))
    options = (delta if lake == "delta" else iceberg_tables).options(tmp_path, **more)
    env = session()
    create(env, "t", "k BIGINT, v STRING", options)
    result = env.execute_sql("SELECT v, SUM(k) FROM t GROUP BY v")
    assert isinstance(result.job, LocalJob)
    table: dict[object, object] = {}
    rows = result.collect()

    def follow(state: dict[object, object]) -> None:
        while table != state:
            change = next(rows)
            if not change.get_row_kind().is_retraction:
                table[change[0]] = change[1]

    follow({"a": 4, "b": 2})
    append(tmp_path, (10, "b"), (20, "c"))
    follow({"a": 4, "b": 12, "c": 20})
    result.job.stop()


def test_what_is_to_be_read_first_is_its_size(tmp_path: Path) -> None:
    for folder, append in ((tmp_path / "delta", delta.append), (tmp_path / "iceberg", iceberg_tables.append)):
        append(folder, (1, "a"))
        append(folder, (2, "b"))
    whole = delta.source_of(tmp_path / "delta").size()
    assert whole
    assert delta.source_of(tmp_path / "delta", mode="streaming").size() == whole
    assert delta.source_of(tmp_path / "delta", mode="streaming", startingVersion="0").size() is None
    ice = tmp_path / "iceberg"
    whole = iceberg_tables.source_of(ice).size()
    assert whole
    scan = {"streaming": "true", "starting_strategy": "TABLE_SCAN_THEN_INCREMENTAL"}
    assert iceberg_tables.source_of(ice, **scan).size() == whole
    assert iceberg_tables.source_of(ice, streaming="true").size() is None
    first = iceberg_tables.opened(ice).history()[0].snapshot_id
    assert iceberg_tables.source_of(ice, end_snapshot_id=str(first)).size() is None
