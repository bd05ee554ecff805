"""FLIP-292's acceptance from Kafka into Kafka, in real time: all scenarios in one job, whose TTLs are exchanged by an
edit of its plan on the same checkpoint."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans.document import PlanDocument
from stateplan.runtime.job import Job
from stateplan.session.environment import TableEnvironment
from tests.e2e.ttl_scenarios import CHAIN, COUNTS, JOIN, LATER, LONG, SHORT, Rows, Scenario, wait_until
from tests.support.kafka import Kafka

SCENARIOS = {"chain": CHAIN, "counts": COUNTS, "joined": JOIN}
FRESH = 100
"""What is added to the keys of the second run, so that it begins with none of the first run's."""

SOURCE = """CREATE TABLE {name} (k INT, g INT, pt AS PROCTIME()) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
    'scan.startup.mode' = 'earliest-offset', 'format' = 'json')"""
SINK = """CREATE TABLE {name} (x BIGINT, y BIGINT) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = '{topic}',
    'format' = 'op-json', 'op-json.mode' = 'retract')"""


def with_ttls(document: PlanDocument, ttls: tuple[str, str]) -> PlanDocument:
    """The plan of all scenarios, each with ``ttls`` for its two states."""
    aggregates = [n for n in document.graph.nodes if n.title == "group-aggregate"]
    (deduplicate,) = (n for n in document.graph.nodes if n.title == "deduplicate")
    (join,) = (n for n in document.graph.nodes if n.title == "join")
    # The chain has one aggregate behind its deduplication, the counts have two in a row.
    behind = {target for source, target in document.graph.edges}
    assert len(aggregates) == 3 and {a.id for a in aggregates} <= behind
    chained = next(a for a in aggregates if deduplicate in upstream(document, a))
    inner, outer = sorted((a for a in aggregates if a is not chained), key=lambda a: a.id)
    for first, second in ((deduplicate, chained), (inner, outer)):
        document = document.set_ttl(first.id, 0, ttls[0]).set_ttl(second.id, 0, ttls[1])
    return document.set_ttl(join.id, 0, ttls[0]).set_ttl(join.id, 1, ttls[1])


def upstream(document: PlanDocument, node: ExecNode) -> list[ExecNode]:
    """All nodes before a node."""
    found: list[ExecNode] = []
    todo = [node]
    while todo:
        inputs = document.graph.inputs(todo.pop())
        found += inputs
        todo += inputs
    return found


def changes(kafka: Kafka, topic: str) -> list[str]:
    """The changes in a topic, in order."""
    rows = [json.loads(message.value() or b"") for message in kafka.consume(topic)]
    return [f"{row.pop('_op')}[{', '.join(str(v) for v in row.values())}]" for row in rows]


def shifted(scenario: Scenario, lines: list[str]) -> list[str]:
    """Expected changes of the second run: groups and values are other ones, counts are the same."""
    if scenario is COUNTS:
        return lines
    out = []
    for line in lines:
        first, second = (int(v) for v in line[3:-1].split(", "))
        second += FRESH if scenario is JOIN else 0
        out.append(f"{line[:3]}{first + FRESH}, {second}]")
    return out


@pytest.mark.spark
def test_ttls_are_exchanged_on_the_same_checkpoint(spark: object, kafka: Kafka, tmp_path: Path) -> None:
    options = {"pipeline.max-parallelism": "1", "execution.checkpointing.dir": str(tmp_path / "checkpoint")}
    session = TableEnvironment.create(options)
    sources = {name: kafka.topic() for name in ("a", "b", "l", "r")}
    sinks = {name: kafka.topic() for name in SCENARIOS}
    for ddl, topics in ((SOURCE, sources), (SINK, sinks)):
        for name, topic in topics.items():
            session.execute_sql(ddl.format(name=name, topic=topic, servers=kafka.servers))
    queries = {name: scenario.query.format(hint=("", "")) for name, scenario in SCENARIOS.items()}
    body = " ".join(f"INSERT INTO {name} {query};" for name, query in queries.items())
    compiled = session.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {body} END").as_json_string()
    document, plan = PlanDocument.parse(compiled), tmp_path / "plan.json"

    def arrive(rows: Rows, fresh: int) -> None:
        for name, lines in rows.items():
            texts = [json.dumps({key: value + fresh for key, value in row.items()}) for row in lines]
            kafka.produce(sources[name], texts)

    def run(ttls: tuple[str, str], expected: dict[str, list[str]], fresh: int) -> None:
        with_ttls(document, ttls).write(str(plan), overwrite=True)
        job = session.execute_plan(plan).job
        assert job is not None
        so_far = {name: changes(kafka, sinks[name]) for name in SCENARIOS}

        def there(name: str, wanted: list[str]) -> bool:
            return changes(kafka, sinks[name])[len(so_far[name]) :] == wanted

        def settle(wanted: dict[str, list[str]], job: Job = job) -> None:
            wait_until(job, lambda: all(there(name, lines) for name, lines in wanted.items()))

        try:
            for scenario in SCENARIOS.values():
                arrive(scenario.first, fresh)
            settle({n: shifted(s, s.before) if fresh else s.before for n, s in SCENARIOS.items()})
            time.sleep(LATER / 1000)
            for scenario in SCENARIOS.values():
                arrive(scenario.later, fresh)
            settle({n: [*(shifted(s, s.before) if fresh else s.before), *expected[n]] for n, s in SCENARIOS.items()})
        finally:
            job.stop()

    run((SHORT, LONG), {n: s.short_long for n, s in SCENARIOS.items()}, 0)
    time.sleep(LATER / 1000)  # what has the short TTL from now on is over before the second run begins
    run((LONG, SHORT), {n: shifted(s, s.long_short) for n, s in SCENARIOS.items()}, FRESH)
