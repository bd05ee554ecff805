"""``plan try --checkpoint``: a changed plan beside the old one, from a copy of the checkpoint of a job."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from typer.testing import CliRunner, Result

from stateplan.cli.app import app
from stateplan.cli.exit_codes import ExitCode
from stateplan.session.environment import TableEnvironment
from tests.support.kafka import SILENT, Kafka
from tests.support.shop import BY_PRODUCT, COUNTS, JOINED, LINES, Shop, named
from tests.support.waiting import until

pytestmark = pytest.mark.spark

OLD = ((COUNTS, BY_PRODUCT), (LINES, JOINED))
NEW = ((COUNTS, BY_PRODUCT.replace("orders", "orders WHERE amount > 3")), (LINES, JOINED.replace("JOIN", "LEFT JOIN")))
Rows = Sequence[dict[str, Any]]


def orders(*numbers: int) -> Rows:
    return [{"id": n, "product": "abd"[n % 3], "amount": n % 50} for n in numbers]


def shipped(target: str, numbers: Iterable[int]) -> Rows:
    return [{"id": n, "target": target} for n in numbers]


def counted(rows: Rows) -> dict[str, dict[str, Any]]:
    """The table of counts, by product."""
    own = {product: [row["amount"] for row in rows if row["product"] == product] for product in "abd"}
    return {product: {"product": product, "n": len(a), "s": sum(a)} for product, a in own.items()}


def joined(rows: Rows, targets: Rows, outer: bool) -> Counter[str]:
    """The table of lines."""
    lines: Counter[str] = Counter()
    for row in rows:
        found = [target["target"] for target in targets if target["id"] == row["id"]] or [None] * outer
        lines.update(json.dumps({"id": row["id"], "product": row["product"], "target": target}) for target in found)
    return lines


def net(before: Counter[str], after: Counter[str]) -> Counter[tuple[str, str]]:
    """What becomes of rows between two tables."""
    kinds = (("+I", after - before), ("-D", before - after))
    return Counter({(kind, row): n for kind, rows in kinds for row, n in rows.items()})


def contents(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in files}


def try_plan(plan: Path, *args: object) -> Result:
    return CliRunner().invoke(app, ["plan", "try", *map(str, (plan, *args))])


def test_a_changed_plan_beside_the_old_one(spark: object, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    first, second = orders(*range(40)), orders(*range(30, 60))
    early, late = shipped("x", range(0, 40, 3)), shipped("z", range(1, 60, 4))
    shop.arrive("orders", "1.json", *first)
    shop.arrive("shipped", "1.json", *early)
    shop.run(named("t", *OLD), "old")
    plan = tmp_path / "new.json"
    plan.write_text(shop.plan(named("t", *NEW), "unused").as_json_string())
    shop.arrive("orders", "2.json", *second)
    shop.arrive("shipped", "2.json", *late)
    before = contents(tmp_path)
    done = try_plan(plan, "--checkpoint", tmp_path / "old", "--format", "json")
    assert done.exit_code == 0, done.output
    assert contents(tmp_path) == before, "the checkpoint, the inputs and the tables are as they were"

    data = json.loads(done.stdout)
    counts, lines = data["sinks"]
    old, new = counted([*first, *second]), counted([row for row in (*first, *second) if row["amount"] > 3])
    assert counts["examples"]["different"] == [{"old": old[p], "new": new[p]} for p in "abd"]
    assert (counts["sink"], counts["onlyOld"], counts["onlyNew"], counts["different"]) == ("counts_t", 0, 0, 3)
    old_lines, new_lines = (
        net(joined(first, early, outer), joined([*first, *second], [*early, *late], outer)) for outer in (False, True)
    )
    assert (lines["onlyOld"], lines["different"]) == ((old_lines - new_lines).total(), 0)
    assert lines["onlyNew"] == (new_lines - old_lines).total() > 10
    assert lines["changes"]["old"] == old_lines.total()
    for example in lines["examples"]["onlyNew"]:
        assert (example["kind"], json.dumps(example["row"])) in new_lines - old_lines
    plans = data["plans"]
    assert plans["new"]["rows"] >= plans["old"]["rows"] == len(second) + len(late)
    for figures in plans.values():
        assert figures["stateRows"] > len(first) + len(second)
        assert figures["stateBytes"] > figures["writtenBytes"] > 0
        assert figures["busyMillis"][0] > 0 and len(figures["busyMillis"]) == len(data["millis"]) == 1

    refused = try_plan(plan_over_a_slot(tmp_path), "--checkpoint", tmp_path / "old")
    assert refused.exit_code == ExitCode.BAD_INPUT
    assert "OPT169" in refused.stderr and "its replication slot serves one reader" in refused.stderr
    strict = try_plan(plan, "--checkpoint", tmp_path / "old", "--accept", "derive")
    assert strict.exit_code != 0 and "CKPT003" in strict.stderr, "the filtered counts need history"
    (tmp_path / "orders" / "1.json").touch()
    gone = try_plan(plan, "--checkpoint", tmp_path / "old")
    assert gone.exit_code != 0 and f"all rows that the job of {tmp_path / 'old'} has read" in gone.stderr


def plan_over_a_slot(folder: Path) -> Path:
    env = TableEnvironment.create()
    env.execute_sql(
        "CREATE TABLE changes (product STRING, PRIMARY KEY (product) NOT ENFORCED) WITH ('connector' = 'postgres-cdc', "
        "'hostname' = 'nowhere', 'username' = 'u', 'password' = '${env:PW}', 'database-name' = 'd', "
        "'schema-name' = 's', 'table-name' = 't', 'slot.name' = 'x')"
    )
    env.execute_sql("CREATE TABLE counts_t (product STRING, n BIGINT) WITH ('connector' = 'print')")
    plan = folder / "slot.json"
    query = "INSERT INTO counts_t SELECT product, COUNT(*) FROM changes GROUP BY product"
    plan.write_text(env.compile_plan_sql(query).as_json_string())
    return plan


@pytest.mark.parametrize(
    "options",
    [["--for", "1 min"], ["--accept", "reset"], [], ["--checkpoint", "ck", "--never"]],
)
def test_options_that_do_not_go_together(options: list[str], tmp_path: Path) -> None:
    assert try_plan(tmp_path / "plan.json", *options).exit_code == 2


def test_a_duration_needs_a_number(tmp_path: Path) -> None:
    done = try_plan(tmp_path / "plan.json", "--checkpoint", "ck", "--for", "soon")
    assert "OPT105" in done.stderr and "'soon' is not a value of the option '--for'" in done.stderr


KAFKA_TABLES = """
CREATE TABLE orders (id BIGINT NOT NULL, product STRING, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
  WITH ('connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = '{servers}', 'format' = 'json',
        'properties.group.id' = '{topic}-group', 'scan.startup.mode' = 'earliest-offset');
CREATE TABLE counts (product STRING, n BIGINT, PRIMARY KEY (product) NOT ENFORCED) WITH ('connector' = 'blackhole');
CREATE TABLE windows (w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'blackhole');
"""
KAFKA_QUERY = """
EXECUTE STATEMENT SET BEGIN
INSERT INTO counts SELECT product, COUNT(*) FROM orders WHERE id >= {least} GROUP BY product;
INSERT INTO windows SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' HOUR))
  GROUP BY window_start, window_end;
END"""


def messages(*numbers: int) -> list[str]:
    """A message a minute."""
    return [
        json.dumps({"id": n, "product": "ab"[n % 2], "ts": f"2026-01-01 {n // 60:02}:{n % 60:02}:00"}) for n in numbers
    ]


def committed(kafka: Kafka, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": kafka.servers, "group.id": f"{topic}-group", **SILENT})
    with closing(consumer):
        return int(consumer.committed([TopicPartition(topic, 0)], 10)[0].offset)


def test_a_running_job_is_not_disturbed(spark: object, kafka: Kafka, tmp_path: Path) -> None:
    topic = kafka.topic()
    kafka.produce(topic, messages(*range(70)))
    checkpoint, plan = tmp_path / "checkpoint", tmp_path / "new.json"
    options = {"parallelism.default": "2", "execution.checkpointing.dir": str(checkpoint)}
    env = TableEnvironment.create({**options, "execution.checkpointing.interval": "1 h"})
    for statement in KAFKA_TABLES.format(topic=topic, servers=kafka.servers).split(";\n")[:3]:
        env.execute_sql(statement)
    plan.write_text(env.compile_plan_sql(KAFKA_QUERY.format(least=60)).as_json_string())
    job = env.compile_plan_sql(KAFKA_QUERY.format(least=0)).execute().job
    assert job is not None
    try:
        until((checkpoint / "spark" / "commits" / ".0.crc").exists, 60, "the job reads its messages")
        known = committed(kafka, topic)
        kafka.produce(topic, messages(*range(70, 90)))
        before = contents(checkpoint / "spark")
        for how in ((), ("--for", "1 s")):
            done = try_plan(plan, "--checkpoint", checkpoint, *how, "--format", "json")
            assert done.exit_code == 0, done.output
            data = json.loads(done.stdout)
            counts, windows = data["sinks"]
            assert [figures["rows"] for figures in data["plans"].values()] == [20, 20]
            # Of 90 orders, and of the 30 from order 60 on, each second one is of a product.
            old_rows, new_rows = ([{"product": p, "n": n} for p in "ab"] for n in (45, 15))
            pairs = [{"old": old, "new": new} for old, new in zip(old_rows, new_rows, strict=True)]
            assert counts["examples"]["different"] == pairs
            assert windows["changes"] == {"old": 0, "new": 0}, "the window is still open"
        assert contents(checkpoint / "spark") == before
        assert committed(kafka, topic) == known < 90
        assert not job.has_ended
    finally:
        job.stop()
