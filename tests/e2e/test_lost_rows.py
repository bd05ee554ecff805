"""Retractions whose row has expired are counted on Spark, and each operator says so once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script

TABLES = """
CREATE TABLE keyed (id INT, g INT, v INT, PRIMARY KEY (id) NOT ENFORCED)
  WITH ('connector'='replay', 'path'='{rows}', 'format'='debezium-json');
CREATE TABLE keyless (id INT, g INT, v INT)
  WITH ('connector'='replay', 'path'='{rows}', 'format'='debezium-json');
CREATE TABLE joined (a INT, b INT) WITH ('connector'='print', 'changelog-mode'='retract');
CREATE TABLE padded (a INT, b INT) WITH ('connector'='print', 'changelog-mode'='retract');
CREATE TABLE first_rows (a INT, b INT) WITH ('connector'='print', 'changelog-mode'='retract');
CREATE TABLE shown (g INT, v INT, PRIMARY KEY (g) NOT ENFORCED)
  WITH ('connector'='print', 'changelog-mode'='upsert');
"""
SET = """
EXECUTE STATEMENT SET BEGIN
INSERT INTO joined SELECT a.id, b.v FROM keyed AS a JOIN keyed AS b ON a.id = b.id;
INSERT INTO padded SELECT a.id, b.v FROM keyless AS a LEFT JOIN keyless AS b ON a.id = b.id;
INSERT INTO first_rows SELECT id, v FROM
  (SELECT *, ROW_NUMBER() OVER (PARTITION BY g ORDER BY v) AS n FROM keyless) WHERE n <= 2;
INSERT INTO shown SELECT g, v FROM keyless ON CONFLICT DO DEDUPLICATE;
END;
"""
NORMALIZED = "INSERT INTO joined SELECT id, v FROM keyed;"


def run(script: str, folder: Path, options: dict[str, str]) -> list[str]:
    """What the operators say: four rows come, and three of them go long after their TTL."""
    rows = [{"id": i, "g": 1, "v": i} for i in range(4)]
    events = [{"before": None, "after": r, "op": "c", "@at": 1_000} for r in rows]
    events += [{"before": r, "after": None, "op": "d", "@at": 60_000} for r in rows[:2]]
    events += [{"before": r, "after": None, "op": "d", "@at": 61_000} for r in rows[2:3]]
    path = folder / "rows.json"
    path.write_text("".join(json.dumps(e) + "\n" for e in events))
    said: list[str] = []
    session = TableEnvironment.create(
        {"pipeline.max-parallelism": "1", "table.exec.state.ttl": "1 s", **options}, console=said.append
    )
    for statement in read_script(TABLES.format(rows=path) + script):
        result = session.execute_statement(statement)
    result.wait()
    return sorted(line.split(" found")[0] for line in said if "found nothing" in line)


@pytest.mark.spark
def test_joins_ranks_and_sinks_count_what_they_miss(spark: object, tmp_path: Path) -> None:
    said = [(line.split("[")[0], line.split(": ")[1]) for line in run(SET, tmp_path, {})]
    joins = [("join", "4 retractions")] * 2
    assert said == [*joins, ("rank", "2 retractions"), ("sink", "2 retractions")]


@pytest.mark.spark
def test_normalization_counts_what_it_misses(spark: object, tmp_path: Path) -> None:
    said = run(NORMALIZED, tmp_path, {"table.exec.source.cdc-events-duplicate": "true"})
    assert [line.split("]: ")[1] for line in said] == ["2 retractions"]
    assert said[0].startswith("changelog-normalize[")
