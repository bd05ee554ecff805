"""Plans over Kafka tables: what their sources are told, as in Flink's plans; and event time by partition in Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateplan import TableEnvironment
from stateplan.connectors.kafka.planning import offsets_of
from stateplan.execnodes.graph import ExecGraph
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.translate import translate
from tests.support.kafka import Kafka

WITH = "'connector' = 'kafka', 'topic' = 't', 'properties.bootstrap.servers' = 'nowhere:1', 'format' = 'json', "
START = "'scan.startup.mode' = 'earliest-offset'"


def session(**tables: str) -> TableEnvironment:
    made = TableEnvironment.create({"table.exec.local.max-input-size": "0"})
    for name, text in tables.items():
        made.execute_sql(f"CREATE TABLE {name} {text}")
    return made


def optimized(explained: str) -> str:
    """What EXPLAIN prints behind the abstract syntax tree."""
    return explained.partition("== Optimized Physical Plan ==")[2]


def scan_line(plan: str) -> str:
    return next(line for line in plan.splitlines() if "TableSourceScan" in line).strip(" +-")


COMPUTED = (
    "(id INT, u INT, ts BIGINT, t AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR t AS t - INTERVAL '1' SECOND) "
    f"WITH ({WITH}{START})"
)
PLAIN = (
    "(id INT, t TIMESTAMP(3), part INT METADATA FROM 'partition' VIRTUAL, "
    f"WATERMARK FOR t AS t - INTERVAL '1' SECOND) WITH ({WITH}{START}, 'scan.watermark.idle-timeout' = '5 s')"
)
COUNTS = (
    "SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE {}, DESCRIPTOR(t), INTERVAL '10' SECOND)) "
    "GROUP BY window_start, window_end"
)


def test_sources_make_the_watermarks() -> None:
    plan = optimized(session(o=COMPUTED).explain_sql(COUNTS.format("o")))
    assert "Calc(select=[Reinterpret(TO_TIMESTAMP_LTZ(ts, 3)) AS t])" in plan
    assert scan_line(plan) == (
        "TableSourceScan(table=[[default_catalog, default_database, o, project=[ts], metadata=[], "
        "watermark=[-(TO_TIMESTAMP_LTZ(ts, 3), 1000:INTERVAL SECOND)], watermarkEmitStrategy=[on-periodic]]], "
        "fields=[ts])"
    )
    plan = optimized(session(o=PLAIN).explain_sql("SELECT id, part, t FROM o WHERE id > 3"))
    assert "WatermarkAssigner" not in plan
    assert scan_line(plan) == (
        "TableSourceScan(table=[[default_catalog, default_database, o, metadata=[partition], "
        "watermark=[-(t, 1000:INTERVAL SECOND)], idletimeout=[5000], watermarkEmitStrategy=[on-periodic]]], "
        "fields=[id, t, partition])"
    ) or "fields=[id, t, part]" in scan_line(plan)


def compiled(made: TableEnvironment, statement: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made.compile_plan_sql(statement).as_json_string())
    return found


def test_the_plan_says_how_watermarks_are_made() -> None:
    made = session(o=PLAIN, s="(w TIMESTAMP(3), c BIGINT) WITH ('connector' = 'blackhole')")
    made.execute_sql("SET 'table.exec.source.idle-timeout' = '2 s'")
    plan = compiled(made, f"INSERT INTO s {COUNTS.format('o')}")
    scan = plan["nodes"][0]
    ability = scan["scanTableSource"]["abilities"][-1]
    assert ability["type"] == "WatermarkPushDown"
    assert ability["idleTimeoutMillis"] == 2000
    assert ability["watermarkParams"] == {
        "emitStrategy": "ON_PERIODIC",
        "alignGroupName": None,
        "alignMaxDrift": "PT0S",
        "alignUpdateInterval": "PT1S",
        "sourceIdleTimeout": 5000,
    }
    assert scan["outputType"] == ability["producedType"] | {"nullable": True} or "ROWTIME" in json.dumps(ability)
    graph: JobGraph = translate(ExecGraph.from_json(plan), {}, 2)
    assert [dict(o.idle_timeouts) for o in graph.operators if o.channels] == [{(0, 0): 5000}]


def test_statements_of_a_set_read_a_topic_once() -> None:
    made = session(
        o=COMPUTED,
        s="(w TIMESTAMP_LTZ(3), c BIGINT) WITH ('connector' = 'blackhole')",
        i="(id INT, t TIMESTAMP_LTZ(3)) WITH ('connector' = 'blackhole')",
    )
    statement = (
        f"EXECUTE STATEMENT SET BEGIN INSERT INTO s {COUNTS.format('o')}; INSERT INTO i SELECT id, t FROM o; END"
    )
    nodes = compiled(made, statement)["nodes"]
    (scan,) = [n for n in nodes if n["type"].startswith("stream-exec-table-source-scan")]
    assert "project=[id, ts]" in scan["description"]
    assert "watermark=[-(TO_TIMESTAMP_LTZ(ts, 3), 1000:INTERVAL SECOND)]" in scan["description"]


def test_upserts_are_normalized_by_their_key() -> None:
    options = WITH.replace("'kafka'", "'upsert-kafka'").replace("'format'", "'key.format' = 'json', 'value.format'")
    made = session(o=f"(id INT, v STRING, PRIMARY KEY (id) NOT ENFORCED) WITH ({options.rstrip(', ')})")
    plan = made.explain_sql("SELECT v, COUNT(*) FROM o GROUP BY v")
    assert "ChangelogNormalize(key=[id])" in plan


@pytest.mark.spark
def test_the_slowest_partition_holds_the_watermark_back(spark: object, kafka: Kafka) -> None:
    topic = kafka.topic(2)
    base = 1_700_000_000_000

    def rows(*seconds: int) -> list[str]:
        return [json.dumps({"id": s, "ts": base + 1000 * s}) for s in seconds]

    # The first partition is far ahead of the other one, whose rows would be late behind it.
    kafka.produce(topic, rows(*range(0, 100, 5)), partition=0)
    kafka.produce(topic, rows(*range(0, 50, 10)), partition=1)
    options = WITH.replace("'t'", f"'{topic}'").replace("nowhere:1", kafka.servers)
    bounds = "'scan.bounded.mode' = 'latest-offset', 'scan.max-rows-per-batch' = '13'"
    made = session(
        o="(id INT, ts BIGINT, t AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR t AS t - INTERVAL '1' SECOND) "
        f"WITH ({options}{START}, {bounds})"
    )
    found = list(made.execute_sql(COUNTS.format("o")).collect())
    counts = [row[1] for row in sorted(found, key=lambda row: row[0])]
    assert counts == [3, 3, 3, 3, 3, 2, 2, 2, 2, 2]


ALIGNED = "'scan.watermark.alignment.group' = 'g', 'scan.watermark.alignment.max-drift' = '1 min'"


def test_tables_and_hints_align_sources() -> None:
    made = session(o=PLAIN, p=PLAIN, s="(id INT, t TIMESTAMP(3)) WITH ('connector' = 'blackhole')")
    hint = f"/*+ OPTIONS({ALIGNED.replace(' = ', '=')}) */"
    query = f"SELECT id, t FROM o {hint} UNION ALL SELECT id, t FROM p"
    assert "watermarkAlignment=[g, PT1M, PT1S]" in scan_line(made.explain_sql(query))
    plan = compiled(made, f"INSERT INTO s {query}")

    def readers() -> list[Any]:
        return [source.reader for source in translate(ExecGraph.from_json(plan), {}, 2).sources]

    one, other = readers()
    assert (one.alignment.group, one.alignment.max_drift, one.idle_timeout) == ("g", 60_000, 5000)
    assert other.alignment is None and other.idle_timeout == 5000
    (params,) = [
        ability["watermarkParams"]
        for node in plan["nodes"]
        for ability in node.get("scanTableSource", {}).get("abilities", ())
        if ability.get("watermarkParams", {}).get("alignGroupName")
    ]
    for none in ({"alignMaxDrift": "PT0S"}, {"alignUpdateInterval": "PT0S"}, {"alignGroupName": " "}):
        before = dict(params)
        params.update(none)
        assert [reader.alignment for reader in readers()] == [None, None], none
        params.update(before)


@pytest.mark.spark
def test_aligned_topics_are_read_side_by_side(spark: object, kafka: Kafka, tmp_path: Path) -> None:
    base, drift = 1_700_000_000_000, 30
    topics = {kafka.topic(2): ((10, 22), (20, 11)), kafka.topic(1): ((2, 60),)}
    times: dict[tuple[str, int], list[int]] = {}  # seconds, by topic and partition
    for topic, partitions in topics.items():
        for number, (step, count) in enumerate(partitions):
            times[topic, number] = [step * i for i in range(count)]
            rows = [json.dumps({"id": i, "ts": base + 1000 * at}) for i, at in enumerate(times[topic, number])]
            kafka.produce(topic, rows, partition=number)
    columns = "(id INT, ts BIGINT, t AS TO_TIMESTAMP_LTZ(ts, 3), WATERMARK FOR t AS t)"
    more = f"{START}, 'scan.bounded.mode' = 'latest-offset', 'scan.max-rows-per-batch' = '6', {ALIGNED}"
    options = WITH.replace("nowhere:1", kafka.servers) + more.replace("1 min", f"{drift} s")
    made = session(
        **{f"t{i}": f"{columns} WITH ({options})".replace("'t'", f"'{topic}'") for i, topic in enumerate(topics)}
    )
    made.execute_sql(f"SET 'execution.checkpointing.dir' = '{tmp_path}/checkpoint'")
    found = made.execute_sql("SELECT ts FROM t0 UNION ALL SELECT ts FROM t1").collect()
    assert sorted((row[0] - base) // 1000 for row in found) == sorted(at for some in times.values() for at in some)

    planned = SparkCheckpoint.of(tmp_path / "checkpoint")
    read = dict.fromkeys(times, 0)
    apart = [0]
    for batch in range(planned.last_planned + 1):
        lines = (planned.offset_log / str(batch)).read_text().splitlines()[2:]
        offsets = [offset for offset in map(json.loads, lines) if isinstance(offset, dict)]
        ends = read | {place: end for offset in offsets for place, end in offsets_of(offset).items()}
        marks = {place: times[place][n - 1] if n else -drift for place, n in read.items()}
        least = min((marks[place] for place, n in ends.items() if n < len(times[place])), default=None)
        for place, end in ends.items():
            assert end == read[place] or least is None or marks[place] <= least + drift, (batch, place)
        read = ends
        left = [times[place][n - 1] for place, n in read.items() if 0 < n < len(times[place])]
        apart.append(max(left, default=0) - min(left, default=0))
    assert read == {place: len(some) for place, some in times.items()}
    assert drift < max(apart) <= drift + 6 * 20, "the drift, and what a micro-batch reads"
