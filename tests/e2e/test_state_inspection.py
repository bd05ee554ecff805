"""The state of a checkpoint from outside: its figures, what another TTL would free, its rows; on Spark.

One checkpoint is made for all tests that only look.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from stateplan.cli.app import app
from stateplan.cli.exit_codes import ExitCode
from stateplan.common.errors import CheckpointError
from stateplan.plans.document import PlanDocument
from stateplan.plans.state import CheckpointReader
from stateplan.runtime.metrics.log import read_metrics
from stateplan.session.environment import TableEnvironment
from tests.e2e.counting_job import start_counting

pytestmark = pytest.mark.spark

HOUR = 3_600_000
QUERY = """
    SELECT carrier, COUNT(*), COUNT(DISTINCT total) FROM Orders JOIN Shipments ON Orders.order_id = Shipments.order_id
    GROUP BY carrier"""


class Shop:
    """A join and an aggregate over replay tables; each :meth:`run` plays the rows that have come since."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checkpoint, self.plan = folder, folder / "checkpoint", folder / "plan.json"
        self.orders: list[tuple[int, int, int]] = []
        self.shipments: list[tuple[int, int, str]] = []
        environment = self.environment()
        environment.execute_sql(f"COMPILE PLAN '{self.plan}' FOR INSERT INTO snk {QUERY}")

    def environment(self) -> TableEnvironment:
        options = {
            "pipeline.max-parallelism": "2",
            "execution.checkpointing.dir": str(self.checkpoint),
            "table.exec.state.ttl": "150 min",
        }
        environment = TableEnvironment.create(options)
        for name, columns in (("Orders", "order_id INT, total BIGINT"), ("Shipments", "order_id INT, carrier STRING")):
            path = self.folder / f"{name}.json"
            path.touch()
            environment.execute_sql(
                f"CREATE TABLE {name} ({columns}, pt AS PROCTIME()) "
                f"WITH ('connector' = 'replay', 'path' = '{path}', 'format' = 'json')"
            )
        environment.execute_sql(
            "CREATE TABLE snk (carrier STRING, n BIGINT, d BIGINT) WITH ('connector' = 'blackhole')"
        )
        return environment

    def order(self, at: int, *ids: int) -> None:
        self.orders += [(at, i, 100 * i) for i in ids]
        self._append("Orders", [{"@at": at, "order_id": i, "total": 100 * i} for i in ids])

    def ship(self, at: int, *ids: int) -> None:
        self.shipments += [(at, i, f"c{i % 2}") for i in ids]
        self._append("Shipments", [{"@at": at, "order_id": i, "carrier": f"c{i % 2}"} for i in ids])

    def _append(self, name: str, rows: list[dict[str, object]]) -> None:
        with (self.folder / f"{name}.json").open("a") as out:
            out.writelines(json.dumps(row) + "\n" for row in rows)

    def run(self) -> None:
        self.environment().execute_sql(f"EXECUTE PLAN '{self.plan}'").wait()

    def edit(self, state: str, ttl: str) -> None:
        document = PlanDocument.load(str(self.plan))
        node = next(n for n in document.graph.nodes if n.title == "join")
        document.set_ttl(node.id, state, ttl).write(str(self.plan), overwrite=True)

    def reader(self, at: int | None = None) -> CheckpointReader:
        return CheckpointReader.read(self.checkpoint, at=at)

    def age(self, now: int) -> dict[str, list[int]]:
        """How old the rows of both sides of the join are, ms."""
        return {"left": [now - at for at, _, _ in self.orders], "right": [now - at for at, _, _ in self.shipments]}


@pytest.fixture(scope="module")
def shop(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    shop = Shop(tmp_path_factory.mktemp("my shop"))  # Spark's reader of state does not take blanks as they are
    shop.order(0, 1, 2, 3, 4)
    shop.order(HOUR, 5, 6)
    shop.ship(2 * HOUR, 2, 5, 5)
    shop.order(3 * HOUR, 7)
    shop.run()
    yield shop


def stateplan(*args: object) -> Result:
    return CliRunner().invoke(app, ["state", *map(str, args)])


def test_figures_by_state(shop: Shop) -> None:
    report = shop.reader().show(what_if=["join.left=90 min", "join.right=never", "group-aggregate=30 min"])
    assert (report.snapshot.batch, report.snapshot.now, report.snapshot.clock) == (3, 3 * HOUR, "replay clock")
    left, right, aggregate = report.states
    assert [s.state.selector for s in report.states] == ["join.left", "join.right", "group-aggregate"]

    ages = shop.age(3 * HOUR)
    live = [a for a in ages["left"] if a < 2.5 * HOUR]
    assert (left.total.rows - left.total.aged[0].rows, left.total.keys) == (len(live), 3)
    assert left.total.aged[0].rows <= 4, "expired, and some of it may be gone"
    assert (left.total.oldest, left.total.newest) == (HOUR, 3 * HOUR)
    assert right.total.rows == 3
    assert right.total.keys == 2
    guess = report.what_if[0]
    assert guess.freed.rows == sum(1.5 * HOUR <= a < 2.5 * HOUR for a in ages["left"]) == 2
    assert guess.freed.bytes > 0
    assert report.what_if[1].freed.rows == 0
    assert report.what_if[1].after.due_day == 0

    # 2 and 5 were shipped after two hours, 5 twice: one row per carrier, and one per carrier and total
    assert {name: f.rows for name, f in aggregate.tables.items()} == {"rows": 2, "distinct1": 2}
    assert report.what_if[2].freed.rows == 4

    text = str(report)
    assert "(the last instant played)" in text
    assert "150 min -> 90 min" in text


def test_figures_on_the_command_line(shop: Shop) -> None:
    done = stateplan(
        "show", shop.checkpoint, "join.right", "--at", 4 * HOUR, "-w", "join.right=1 h", "--format", "json"
    )
    assert done.exit_code == 0, done.output
    data = json.loads(done.stdout)
    assert [s["selector"] for s in data["states"]] == ["join.right"]
    state = data["states"][0]
    assert (state["name"], state["ttlMillis"], state["liveRows"], state["dueInHour"]) == ("rightState", 9_000_000, 3, 3)
    assert (data["clock"], data["nowMillis"]) == ("given", 4 * HOUR)
    assert data["whatIf"][0]["freedRows"] == 3
    end = 2 * HOUR + 150 * 60_000
    for at, live in ((end - 1, 3), (end, 0)):
        now = json.loads(stateplan("show", shop.checkpoint, "join.right", "--at", at, "--format", "json").stdout)
        assert now["states"][0]["liveRows"] == live


def test_rows_on_the_command_line(shop: Shop, tmp_path: Path) -> None:
    done = stateplan("read", shop.checkpoint, "join.left", "--key", "ORDER_ID=5")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1:4] == [
        "| order_id | total |         access_time |          expires_at |",
        "+----------+-------+---------------------+---------------------+",
        "|        5 |   500 | 1970-01-01 01:00:00 | 1970-01-01 03:30:00 |",
    ]
    done = stateplan("read", shop.checkpoint, "group-aggregate", "--format", "json", "--expired", "-q")
    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted((r["carrier"], r["COUNT(*)"], r["COUNT(DISTINCT total)"]) for r in rows) == [
        ("c0", 1, 1),
        ("c1", 2, 1),
    ]
    assert {(r["access_time"], r["expired"]) for r in rows} == {("1970-01-01T02:00:00Z", False)}

    target = tmp_path / "right.parquet"
    done = stateplan("read", shop.checkpoint, "join.right", "-o", target)
    assert (done.exit_code, done.stdout) == (0, "")
    assert "3 rows in" in done.stderr
    assert sorted(pq.read_table(target)["carrier"].to_pylist()) == ["c0", "c1", "c1"]
    assert stateplan("read", shop.checkpoint, "join.right", "-o", target).exit_code == ExitCode.FAILED
    done = stateplan("read", shop.checkpoint, "join.right", "-n", "1")
    assert "1 row in set" in done.stdout
    assert "only the first 1 rows" in done.stderr


def test_rows_as_a_data_frame(shop: Shop) -> None:
    frame = shop.reader().read_state("join.left", keys={"order_id": 6})
    assert [tuple(row)[:2] for row in frame.collect()] == [(6, 600)]
    values = shop.reader().read_state("group-aggregate", table="distinct1")
    assert sorted(map(tuple, values.select("carrier", "total").collect())) == [("c0", 200), ("c1", 500)]
    assert dict(values.dtypes)["access_time"] == "timestamp"
    earlier = CheckpointReader.read(shop.checkpoint, batch=0).read_state("join.left")
    assert earlier.count() == 4, "the state after the first micro-batch is still there"


def test_what_a_ttl_frees_is_what_was_predicted(shop: Shop, tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    for hour in range(6):
        shop.order(hour * HOUR, *range(10 * hour, 10 * hour + 3 + hour))
    shop.run()
    then = 6 * HOUR
    predicted = shop.reader(then).show(what_if=["join.left=90 min"]).what_if[0]
    # of the rows live under 150 min in an hour, those of the hours 4 and 5 stay under 90 min only if they are of hour 5
    assert (predicted.now.live.rows, predicted.freed.rows) == (7 + 8, 7)

    shop.edit("leftState", "90 min")
    played = shop.reader().snapshot.batch
    shop.order(then, 99)
    shop.run()
    measured = shop.reader().show().states[0]
    assert measured.state.config.ttl == 90 * 60_000
    live = measured.total.rows - measured.total.aged[0].rows
    assert live == predicted.after.live.rows + 1
    assert predicted.now.live.rows + 1 - live == predicted.freed.rows
    frame = shop.reader().read_state("join.left")
    assert sorted(r.order_id for r in frame.collect()) == [*range(50, 58), 99]

    # and they are gone for good: what the job counted as removed is what was predicted, and what had expired before
    for n in range(1, 7):
        shop.order(then + n, 99 + n)
    shop.run()
    left = shop.reader().show("join.left").states[0]
    assert (left.total.rows, left.total.aged[0].rows) == (live + 6, 0)
    uid = left.state.operator.entry.uid
    removed = sum(
        record.operators.get(uid, {}).get("expired_rows.0", 0)
        for record in read_metrics(shop.checkpoint)
        if record.batch > played
    )
    assert removed == predicted.freed.rows + predicted.now.expired.rows


def test_a_running_job_is_read_after_one_micro_batch(spark: object, tmp_path: Path) -> None:
    job = start_counting(tmp_path / "c")
    try:
        batches = set()
        while len(batches) < 3:
            assert job.is_active
            try:
                reader = CheckpointReader.read(tmp_path / "c")
            except CheckpointError as early:
                assert early.code in ("CKPT002", "CKPT041")
                job.wait(0.2)
                continue
            by_key, by_count = (s.selector for s in reader.states)
            counted = sum(row["COUNT(*)"] for row in reader.read_state(by_count).collect())
            assert counted == reader.read_state(by_key).count() > 0, "both as they were after the same micro-batch"
            batches.add(reader.snapshot.batch)
    finally:
        job.stop()


def test_damage_is_named(shop: Shop, tmp_path: Path) -> None:
    import shutil

    copy = tmp_path / "copy"
    shutil.copytree(shop.checkpoint, copy)
    for file in (copy / "spark" / "state" / "0").rglob("4[._]*"):
        file.unlink()
    with pytest.raises(CheckpointError) as error:
        CheckpointReader.read(copy).show()
    assert error.value.code == "CKPT045"
    assert "after micro-batch 3" in error.value.message
