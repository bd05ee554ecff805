"""What an INSERT asks of its sink, beside the plans that Flink froze for its own connector for tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateplan.common.errors import RunError
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from tests.e2e.programs import connectors_of_its_own, programs
from tests.planner.conftest import plain

NAMES = ("bucketing_hash-with-keys-with-count", "bucketing_with-count", "overwrite", "partition", "writing-metadata")


@pytest.fixture(autouse=True)
def _connectors() -> Iterator[None]:
    with connectors_of_its_own():
        yield


@pytest.mark.parametrize("name", [f"sink-{name}" for name in NAMES])
def test_as_flink_froze_it(name: str, shared: Path, tmp_path: Path) -> None:
    (program,) = (p for p in programs(shared) if p.name == name)
    assert program.plan is not None
    frozen = json.loads(program.plan.read_text())
    graph = program._compiled(program.session(tmp_path / "compiled", "before_restore", metadata=False))
    ours = plain(graph.to_json())
    assert [n["description"] for n in ours["nodes"]] == [n["description"] for n in frozen["nodes"]]
    sinks = [plan["nodes"][-1]["dynamicTableSink"] for plan in (ours, frozen)]
    assert sinks[0].get("abilities") == sinks[1].get("abilities")
    tables = [sink["table"]["resolvedTable"] for sink in sinks]
    assert tables[0].get("distribution") == tables[1].get("distribution")
    assert tables[0].get("partitionKeys", []) == tables[1]["partitionKeys"]
    assert ours["nodes"][-1]["outputType"] == frozen["nodes"][-1]["outputType"]


def test_metadata_is_written_behind_the_columns(shared: Path, tmp_path: Path) -> None:
    (program,) = (p for p in programs(shared) if p.name == "sink-writing-metadata")
    session = program.session(tmp_path / "t", "before_restore", metadata=False)
    session.execute_sql("CREATE TABLE first (c STRING METADATA, b BIGINT, a INT) WITH ('connector' = 'values-c')")
    plan = json.loads(session.compile_plan_sql("INSERT INTO first SELECT c, b, a FROM source_t").as_json_string())
    sink = plan["nodes"][-1]
    assert sink["dynamicTableSink"]["abilities"] == [
        {
            "type": "WritingMetadata",
            "metadataKeys": ["c"],
            "consumedType": "ROW<`b` BIGINT, `a` INT, `c` VARCHAR(2147483647)> NOT NULL",
        }
    ]
    assert sink["outputType"] == "ROW<`b` BIGINT, `a` INT, `c` VARCHAR(2147483647)>"


def test_a_stream_does_not_overwrite_files(tmp_path: Path) -> None:
    env = TableEnvironment.create()
    env.execute_sql("CREATE TABLE g (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    env.execute_sql(
        f"CREATE TABLE f (a INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}', 'format' = 'json')"
    )
    plan = env.compile_plan_sql("INSERT OVERWRITE f SELECT a FROM g")
    with pytest.raises(RunError) as error:
        translate(PlanDocument.parse(plan.as_json_string()).graph, {}, key_groups=1)
    assert error.value.code == "RUN023"


def test_partitions_and_buckets_survive_show_create(tmp_path: Path) -> None:
    env = TableEnvironment.create()
    for clause in ("DISTRIBUTED BY HASH (`a`) INTO 3 BUCKETS", "DISTRIBUTED BY (`a`)", "DISTRIBUTED INTO 4 BUCKETS"):
        env.execute_sql(f"CREATE TABLE t (a INT) {clause} WITH ('connector' = 'print')")
        (row,) = env.execute_sql("SHOW CREATE TABLE t").collect()
        assert f"\n{clause}\n" in str(row[0])
        env.execute_sql("DROP TABLE t")
