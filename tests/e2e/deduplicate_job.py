"""A job that deduplicates a replay table, with its checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment

HOUR = 3_600_000
DEDUP = """INSERT INTO snk SELECT k, v FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY pt) AS n FROM src) WHERE n = 1"""


class Job:
    """One plan over a replay table and a checkpoint directory."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.plan = folder / "plan.json"
        self.rows = folder / "rows.json"
        self.rows.touch()

    def environment(self) -> TableEnvironment:
        environment = TableEnvironment.create(
            {"pipeline.max-parallelism": "2", "execution.checkpointing.dir": str(self.folder / "checkpoint")}
        )
        environment.execute_sql(
            f"CREATE TABLE src (k INT, v INT, pt AS PROCTIME()) WITH "
            f"('connector'='replay', 'path'='{self.rows}', 'format'='json')"
        )
        environment.execute_sql("CREATE TABLE snk (k INT, v INT) WITH ('connector'='print')")
        return environment

    def compile(self, ttl: str) -> None:
        environment = self.environment()
        environment.execute_sql(f"COMPILE PLAN '{self.plan}' FOR {DEDUP}")
        self.edit(ttl)

    def edit(self, ttl: str) -> None:
        document = PlanDocument.load(str(self.plan))
        node = next(n for n in document.graph.nodes if n.title == "deduplicate")
        document.set_ttl(node.id, 0, ttl).write(str(self.plan), overwrite=True)

    def arrive(self, at: int, *rows: tuple[int, int]) -> None:
        with self.rows.open("a") as out:
            out.writelines(json.dumps({"k": k, "v": v, "@at": at}) + "\n" for k, v in rows)

    def run(self) -> list[str]:
        self.environment().execute_sql(f"EXECUTE PLAN '{self.plan}'").wait()
        return self.capsys.readouterr().out.splitlines()
