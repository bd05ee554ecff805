"""TTLs advised from the uses of rows: on data whose needed ages are known, over a restart, a rescale and a TTL edit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from benchmarks.ttl_data import make_input
from stateplan.cli.app import app
from stateplan.cli.exit_codes import ExitCode
from stateplan.common.ttl import format_ttl
from stateplan.plans.document import PlanDocument
from stateplan.plans.edit import set_ttls
from stateplan.plans.state import CheckpointReader
from stateplan.plans.state.advise_view import to_text
from stateplan.runtime.metrics.log import read_metrics
from stateplan.session.environment import TableEnvironment

pytestmark = pytest.mark.spark

HOUR, DAY = 3_600_000, 86_400_000
INSTANTS, HALF = 24, 13
TABLES = {"placed": "order_id BIGINT, user_id BIGINT, num INT", "logistics": "order_id BIGINT, target STRING"}
JOIN = "SELECT o.order_id, l.target FROM placed AS o JOIN logistics AS l ON o.order_id = l.order_id"


@dataclass(frozen=True)
class Deliveries:
    """Recorded orders and logistics records, and a join of them on a checkpoint.

    Attributes:
        folder: of the rows, the plan and the checkpoint.
    """

    folder: Path

    @property
    def checkpoint(self) -> Path:
        return self.folder / "checkpoint"

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    def environment(self, checkpoint: Path, parallelism: int = 2) -> TableEnvironment:
        env = TableEnvironment.create(
            {
                "pipeline.max-parallelism": "4",
                "parallelism.default": str(parallelism),
                "execution.checkpointing.dir": str(checkpoint),
            }
        )
        for name, columns in TABLES.items():
            env.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'replay', 'format' = 'json', "
                f"'path' = '{self.folder / name}.json')"
            )
        env.execute_sql("CREATE TABLE joined (order_id BIGINT, target STRING) WITH ('connector' = 'blackhole')")
        return env

    def record(self, instants: int) -> None:
        """Has the first ``instants`` half-days recorded."""
        for name in TABLES:
            rows = (self.folder / "all" / f"{name}.json").read_text().splitlines(keepends=True)
            kept = [row for row in rows if json.loads(row)["@at"] < instants * 12 * HOUR]
            (self.folder / f"{name}.json").write_text("".join(kept))

    def run(self, checkpoint: Path, parallelism: int = 2) -> None:
        self.environment(checkpoint, parallelism).execute_sql(f"EXECUTE PLAN '{self.plan}'").wait()

    def edit(self, ttls: Mapping[str, str]) -> None:
        document = PlanDocument.load(str(self.plan))
        set_ttls(document, ttls)
        document.write(str(self.plan), overwrite=True)

    def ages(self) -> dict[str, list[int]]:
        """How long after the one the other of each pair came, by the side that had to wait, ms."""
        orders, records = (pl.read_ndjson(self.folder / "all" / f"{name}.json") for name in TABLES)
        pairs = orders.join(records, on="order_id")
        late = (pairs["@at_right"] - pairs["@at"]).to_list()
        return {"join.left": [a for a in late if a > 0], "join.right": [-a for a in late if a < 0]}


def joined(checkpoint: Path) -> int:
    """How many rows the join has given to its sink."""
    sinks = [figures for r in read_metrics(checkpoint) for figures in r.operators.values() if "sink_ms" in figures]
    return sum(int(figures["rows_in"]) for figures in sinks)


@pytest.fixture(scope="module")
def deliveries(spark: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deliveries]:
    found = Deliveries(tmp_path_factory.mktemp("deliveries"))
    make_input(found.folder / "all", INSTANTS, 400, seed=3)
    found.record(HALF)
    found.environment(found.checkpoint).execute_sql(f"COMPILE PLAN '{found.plan}' FOR INSERT INTO joined {JOIN}")
    found.run(found.checkpoint)
    found.record(INSTANTS)
    found.edit({"join.left": "30 d", "join.right": "20 d"})
    found.run(found.checkpoint, parallelism=1)
    yield found


def stateplan(*args: object) -> Result:
    return CliRunner().invoke(app, ["state", *map(str, args)])


def needed(ages: list[int], missed: int) -> int:
    """The shortest TTL that misses so many uses at most."""
    return sorted(ages, reverse=True)[missed] + 1


@pytest.mark.parametrize("miss", [0.0, 0.01, 1.0, 20.0])
def test_the_advice_is_the_truth_within_five_percent(deliveries: Deliveries, miss: float) -> None:
    truth = deliveries.ages()
    found = CheckpointReader.read(deliveries.checkpoint).advise(miss=miss)
    assert [s.selector for s in found.states] == ["join.left", "join.right"]
    for state in found.states:
        ages = truth[state.selector]
        assert {use: h.total for use, h in state.uses.items()} == {"joined": len(ages)}
        assert state.ttl is not None
        right = needed(ages, int(len(ages) * miss / 100))
        assert right <= state.ttl <= 1.05 * right
        assert sum(age >= state.ttl for age in ages) <= state.at(state.ttl).missed <= int(len(ages) * miss / 100)


def test_running_with_the_advice_misses_what_was_told(deliveries: Deliveries, tmp_path: Path) -> None:
    found = CheckpointReader.read(deliveries.checkpoint).advise(miss=20)
    told = sum(s.at(s.ttl or 0).missed for s in found.states)
    again = Deliveries(tmp_path)
    make_input(tmp_path / "all", INSTANTS, 400, seed=3)
    again.record(INSTANTS)
    again.plan.write_bytes(
        deliveries.plan.read_bytes().replace(str(deliveries.folder).encode(), str(tmp_path).encode())
    )
    again.edit({s.selector: format_ttl(s.ttl) for s in found.states if s.ttl})
    again.run(again.checkpoint)
    assert told > 100
    assert joined(deliveries.checkpoint) - joined(again.checkpoint) == told
    kept = CheckpointReader.read(again.checkpoint).advise().states
    for before, after in zip(found.states, kept, strict=True):
        assert after.present.rows == before.at(before.ttl or 0).rows
        assert "hidden by the TTL" in " ".join(after.doubts)


def test_nothing_is_advised_from_few_uses(deliveries: Deliveries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stateplan.plans.state.advise.FEWEST", 1_000_000)
    found = CheckpointReader.read(deliveries.checkpoint).advise()
    assert [(s.own, s.ttl) for s in found.states] == [(None, None), (None, None)]
    assert found.assignments == []
    assert "that a TTL is advised from, at least" in to_text(found)
    assert "advised TTL:" not in to_text(found)


def test_advice_on_the_command_line(deliveries: Deliveries, tmp_path: Path) -> None:
    done = stateplan("advise", deliveries.checkpoint, "--plot", tmp_path / "ttls.html")
    assert done.exit_code == 0, done.output
    assert "join.left: TTL 30 d, " in done.stdout and "advised TTL: 173 h, which misses 0 of" in done.stdout
    page = (tmp_path / "ttls.html").read_text()
    assert "uses missed, %" in page and "join.right" in page and "<script" not in page

    done = stateplan("advise", deliveries.checkpoint, "join.right", "--format", "json", "--plot", tmp_path / "ttls.svg")
    (state,) = json.loads(done.stdout)["states"]
    assert (state["selector"], state["advised"], state["missed"]) == ("join.right", "735 min", 0)
    assert state["hiddenAboveMillis"] == 20 * DAY and not state["sure"] and "uses are too few" in state["doubts"][0]
    assert [p["missed"] for p in state["curve"]] == sorted((p["missed"] for p in state["curve"]), reverse=True)
    assert (tmp_path / "ttls.svg").read_text().startswith("<svg")


def test_advice_is_set_in_a_plan_and_asked_of_the_job(deliveries: Deliveries, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(deliveries.plan.read_bytes())
    done = stateplan("advise", deliveries.checkpoint, "--write", plan, "--live", "--dry-run")
    assert done.exit_code == 0, done.output
    assert plan.read_bytes() == deliveries.plan.read_bytes()
    assert '+      "ttl" : "173 h",' in done.stdout and "30 d -> 173 h" in done.stdout
    assert stateplan("advise", deliveries.checkpoint, "--write", plan).exit_code == 0
    states = [s.ttl for n in PlanDocument.load(str(plan)).graph.nodes for s in n.states]
    assert states == [173 * HOUR, 735 * 60_000]


def test_a_share_that_is_none(deliveries: Deliveries) -> None:
    done = stateplan("advise", deliveries.checkpoint, "--miss", "often")
    assert done.exit_code == ExitCode.USAGE and "OPT405" in done.stderr and "such as 0.01%" in done.stderr
    done = stateplan("advise", deliveries.checkpoint, "--plot", "x.png")
    assert done.exit_code == ExitCode.USAGE and "OPT403" in done.stderr
