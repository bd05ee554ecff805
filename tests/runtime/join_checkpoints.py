"""Checkpoints of jobs with joins of orders and parcels, without any state."""

from __future__ import annotations

import json
from pathlib import Path

from stateplan.planner.catalog.udf import AggregateFunction, udaf
from stateplan.plans.document import PlanDocument
from stateplan.runtime.checkpoint.directory import Checkpoint, Continuation
from stateplan.runtime.translate import translate
from stateplan.runtime.user_functions import bind_functions
from stateplan.session.environment import TableEnvironment

TABLES = (
    "CREATE TABLE Orders (id INT, customer STRING, price DECIMAL(10, 2), ts TIMESTAMP(3), pt AS PROCTIME(), "
    "WATERMARK FOR ts AS ts) WITH ('connector' = 'replay', 'path' = 'o.json', 'format' = 'json')",
    "CREATE TABLE Parcels (id INT, carrier STRING, ts TIMESTAMP(3), pt AS PROCTIME(), "
    "WATERMARK FOR ts AS ts) WITH ('connector' = 'replay', 'path' = 'p.json', 'format' = 'json')",
)
BOTH = "Orders o JOIN Parcels p ON o.id = p.id"

JOIN = ("a INT, b STRING", f"SELECT o.id, carrier FROM {BOTH}")


class Spread(AggregateFunction):
    """Largest less smallest value."""

    def create_accumulator(self) -> list[int]:
        return []

    def accumulate(self, accumulator: list[int], value: int) -> None:
        accumulator.append(value)

    def get_value(self, accumulator: list[int]) -> int:
        return max(accumulator) - min(accumulator)


def checkpoint(folder: Path, *queries: tuple[str, str], batches: int = 1) -> Path:
    """What a job with these queries leaves behind after some micro-batches, without any state."""
    environment = TableEnvironment.create({"table.exec.state.ttl": "1 h"})
    spread = udaf(Spread(), input_types=["INT"], result_type="INT")
    environment.create_temporary_system_function("spread", spread)
    statements = environment.create_statement_set()
    for text in TABLES:
        environment.execute_sql(text)
    for number, (columns, query) in enumerate(queries):
        environment.execute_sql(f"CREATE TABLE snk{number} ({columns}) WITH ('connector' = 'blackhole')")
        statements.add_insert_sql(f"INSERT INTO snk{number} {query}")
    plan = folder / "p.json"
    statements.compile_plan().write_to_file(plan)
    text = plan.read_text()
    plan.unlink()
    graph = bind_functions(PlanDocument.parse(text).graph, environment.functions.of_plan)
    options = {"execution.checkpointing.dir": str(folder), "pipeline.max-parallelism": "4"}
    opened = Checkpoint.open(options, text, graph, lambda _: Continuation.same(graph))
    opened.fit(translate(graph, options, 4))
    opened.adopt()
    opened.close()
    for name in ("commits", "offsets"):
        (folder / "spark" / name).mkdir(parents=True)
        for batch in range(batches):
            lines = ["v1", json.dumps({"batchTimestampMs": 1000 + batch}), *[f'{{"logOffset":{batch}}}'] * 3]
            (folder / "spark" / name / str(batch)).write_text("\n".join(lines))
    (folder / "splits" / "instants").mkdir(parents=True)
    for n, at in enumerate((0, 5_000, 60_000)):
        (folder / "splits" / "instants" / f"{n:010d}_{at}").write_text("x")
    return folder
