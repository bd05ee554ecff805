"""Jobs whose operators drop late rows into files."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from stateplan.connectors.staging import Staging
from stateplan.session.environment import TableEnvironment
from tests.e2e.file_arrivals import arrive

TVF = "TABLE(TUMBLE(TABLE {}, DESCRIPTOR(rt), INTERVAL '10' SECOND))"
OF_E = TVF.format("e")
QUERIES = {
    "local-window-aggregate": (
        "id INT, n BIGINT",
        f"SELECT id, COUNT(*) FROM {OF_E} GROUP BY id, window_start, window_end",
    ),
    "local-window-aggregate HOP": (
        "id INT, n BIGINT",
        "SELECT id, COUNT(*) FROM TABLE(HOP(TABLE e, DESCRIPTOR(rt), INTERVAL '5' SECOND, INTERVAL '10' SECOND)) "
        "GROUP BY id, window_start, window_end",
    ),
    "window-aggregate": (
        "id INT, n BIGINT",
        "SELECT id, COUNT(*) FROM TABLE(SESSION(TABLE e PARTITION BY id, DESCRIPTOR(rt), INTERVAL '10' SECOND)) "
        "GROUP BY id, window_start, window_end",
    ),
    "group-window-aggregate": (
        "id INT, n BIGINT",
        "SELECT id, COUNT(*) FROM e GROUP BY id, TUMBLE(rt, INTERVAL '10' SECOND)",
    ),
    "group-window-aggregate HOP": (
        "id INT, n BIGINT",
        "SELECT id, COUNT(*) FROM e GROUP BY id, HOP(rt, INTERVAL '5' SECOND, INTERVAL '10' SECOND)",
    ),
    "group-window-aggregate SESSION": (
        "id INT, n BIGINT",
        "SELECT id, COUNT(*) FROM e GROUP BY id, SESSION(rt, INTERVAL '10' SECOND)",
    ),
    "window-rank": (
        "id INT",
        "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY k) AS n "
        f"FROM {OF_E}) WHERE n <= 100",
    ),
    "window-deduplicate": (
        "id INT",
        f"SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id, window_start, window_end ORDER BY rt) AS n "
        f"FROM {OF_E}) WHERE n = 1",
    ),
    "window-join": (
        "id INT",
        f"SELECT l.id FROM (SELECT * FROM {OF_E}) l JOIN (SELECT * FROM {TVF.format('f')}) r ON l.window_start = "
        "r.window_start AND l.window_end = r.window_end",
    ),
    "over-aggregate": ("id INT, n BIGINT", "SELECT id, COUNT(*) OVER (ORDER BY rt) FROM e"),
    "over-aggregate ROWS": (
        "id INT, n BIGINT",
        "SELECT id, COUNT(*) OVER (ORDER BY rt ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM e",
    ),
    "interval-join": (
        "id INT",
        "SELECT e.id FROM e JOIN f ON e.k = f.k AND e.rt BETWEEN f.rt - INTERVAL '1' SECOND AND f.rt",
    ),
    "match": (
        "id INT",
        "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY rt MEASURES A.id AS id ONE ROW PER MATCH PATTERN (A) "
        "DEFINE A AS A.id > 0)",
    ),
    "deduplicate": (
        "id INT",
        "SELECT id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY rt) AS n FROM e) WHERE n = 1",
    ),
    "temporal-sort": ("id INT", "SELECT id FROM e ORDER BY rt"),
}


class Restarted:
    """A job of Spark over files, one of a micro-batch each, with files for its results and its late rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir(exist_ok=True)

    def arrive(self, *seconds: int) -> None:
        arrive(self.folder / "in", *({"k": "x", "rt": f"2026-01-01 00:00:{second:02d}"} for second in seconds))

    def run(self, query: str) -> None:
        settings = {
            "execution.checkpointing.dir": str(self.folder / "checkpoint"),
            "pipeline.max-parallelism": "2",
            "late-rows.table": "late",
        }
        session = TableEnvironment.create(settings)
        session.execute_sql(
            "CREATE TABLE e (id INT, k STRING, rt TIMESTAMP(3), WATERMARK FOR rt AS rt) WITH ('connector' = "
            f"'filesystem', 'path' = '{self.folder}/in', 'format' = 'json', 'source.max-files-per-trigger' = '1')"
        )
        for name, columns in (("snk", "id INT, n BIGINT"), ("late", "operator STRING, row_json STRING")):
            session.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{self.folder}/{name}', "
                "'format' = 'json')"
            )
        session.execute_sql(f"INSERT INTO snk {query}").wait()

    def late(self) -> list[int]:
        texts = [p.read_text() for p in (self.folder / "late").iterdir() if p.is_file() and p.name[0] not in "._"]
        return sorted(json.loads(json.loads(line)["row_json"])["id"] for t in texts for line in t.splitlines())


def die_in_the_commit_of_late_rows(folder: str, when: str) -> None:
    """Runs the job of :class:`Restarted` in this process, and ends it where late rows are made visible: before, or
    right after."""
    real = Staging.commit

    def commit(self: Staging, batch_id: int, names: Sequence[str], read: str = "") -> None:
        mine = self.path.endswith("/late") and bool(names)
        if mine and when == "before":
            os._exit(9)
        real(self, batch_id, names, read)
        if mine:
            os._exit(9)

    Staging.commit = commit  # type: ignore[method-assign]
    Restarted(Path(folder)).run(QUERIES["over-aggregate"][1])
