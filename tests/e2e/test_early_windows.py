"""Windows in GROUP BY that are emitted before their end: by the clock, also when no row comes."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_early_results_come_by_the_clock(tmp_path: Path) -> None:
    env = TableEnvironment.create({"pipeline.max-parallelism": "2"}, jobs=Jobs())
    env.get_config().set("execution.checkpointing.interval", "100 ms")
    env.get_config().set("table.exec.emit.early-fire.enabled", "true")
    env.get_config().set("table.exec.emit.early-fire.delay", "2 s")
    folder = tmp_path / "in"
    folder.mkdir()
    env.execute_sql(
        "CREATE TABLE t (id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ('connector' = 'filesystem', "
        f"'path' = '{folder}', 'format' = 'json', 'source.monitor-interval' = '100 ms')"
    )

    def arrive(name: str, *ids: int) -> None:
        partial = tmp_path / name
        partial.write_text("".join(f'{{"id":{i},"ts":"2024-01-01 00:10:00"}}\n' for i in ids))
        partial.rename(folder / name)

    arrive("a.json", 1, 1, 2)
    query = "SELECT id, COUNT(*), TUMBLE_START(ts, INTERVAL '1' HOUR) FROM t GROUP BY id, TUMBLE(ts, INTERVAL '1' HOUR)"
    with env.execute_sql(query) as result:
        rows = result.collect()
        first = [next(rows) for _ in range(2)]
        assert sorted((r.get_row_kind().name, *tuple(r)[:2]) for r in first) == [("INSERT", 1, 2), ("INSERT", 2, 1)]
        arrive("b.json", 2, 2)
        assert [(r.get_row_kind().name, *tuple(r)[:2]) for r in (next(rows), next(rows))] == [
            ("UPDATE_BEFORE", 2, 1),
            ("UPDATE_AFTER", 2, 3),
        ]
