"""State budgets of jobs on Spark: what each policy does, and that nothing is lost without a word."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.plans.document import PlanDocument
from stateplan.runtime.budget import BUDGET, POLICY, WHO
from stateplan.runtime.checkpoint.live_ttl import read_ttls
from stateplan.runtime.metrics.log import read_metrics
from stateplan.session.environment import TableEnvironment

pytestmark = pytest.mark.spark

HOUR = 3_600_000
INSTANTS, EACH = 12, 50


class Clicks:
    """Sessions of clicks that are counted: new ones every hour, which an earlier one joins again after two."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.checkpoint, self.plan = folder, folder / "checkpoint", folder / "plan.json"
        self.notes: list[str] = []
        rows = [
            {"@at": hour * HOUR, "k": (hour - back) * EACH + n}
            for hour in range(INSTANTS)
            for back in (0, 2)
            if hour >= back
            for n in range(EACH)
        ]
        (folder / "clicks.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        document = PlanDocument.parse(
            self.session({}).compile_plan_sql("INSERT INTO s SELECT k, COUNT(*) FROM c GROUP BY k").as_json_string()
        )
        node = next(n for n in document.graph.nodes if n.states)
        document.set_ttl(node.id, 0, "9 h")
        text = document.text.replace(
            '"name" : "groupAggregateState"', '"name" : "groupAggregateState", "minTtl" : "150 min"'
        )
        self.plan.write_text(text)

    def session(self, options: dict[str, str]) -> TableEnvironment:
        base = {"execution.checkpointing.dir": str(self.checkpoint), "pipeline.max-parallelism": "2"}
        env = TableEnvironment.create(base | options, console=self.notes.append)
        env.execute_sql(
            "CREATE TABLE c (k INT) WITH ('connector' = 'replay', 'format' = 'json', "
            f"'path' = '{self.folder}/clicks.json')"
        )
        env.execute_sql("CREATE TABLE s (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
        return env

    def run(self, budget: str, policy: str) -> None:
        self.session({BUDGET: budget, POLICY: policy}).execute_sql(f"EXECUTE PLAN '{self.plan}'").wait()

    def told(self) -> list[str]:
        return [note for note in self.notes if note.startswith("state budget")]


@pytest.fixture
def clicks(spark: object, tmp_path: Path) -> Clicks:
    return Clicks(tmp_path)


def test_a_warning_near_and_over_the_budget(clicks: Clicks) -> None:
    clicks.run("group-aggregate=400 rows", "WARN")
    near, over = clicks.told()[:2]
    assert near.startswith("state budget: group-aggregate has 400 rows, 100% of its 400 rows")
    assert "its TTL is 9 h; 99.99% of 150 uses found a row younger than 2 h" in near
    assert over.startswith("state budget: group-aggregate has 500 rows, 125% of its 400 rows")
    shares = [r.budgets for r in read_metrics(clicks.checkpoint)]
    assert len(shares) == INSTANTS and shares[1] == {"group-aggregate": 0.25}


def test_a_job_stops_over_its_budget_and_goes_on_with_another_one(clicks: Clicks) -> None:
    with pytest.raises(StateplanError, match="RUN166"):
        clicks.run("group-aggregate=400 rows", "STOP")
    records = read_metrics(clicks.checkpoint)
    assert records[-1].budgets["group-aggregate"] > 1 >= records[-2].budgets["group-aggregate"]
    clicks.run("1 gb", "STOP")
    records = read_metrics(clicks.checkpoint)
    assert [r.batch for r in records] == list(range(INSTANTS)), "no micro-batch was left out or run twice"
    assert sum(r.total("rows_in") for r in records) > 0


def test_ttls_get_shorter_and_it_is_recorded(clicks: Clicks) -> None:
    clicks.run("group-aggregate=400 rows", "SHORTEN")
    (state,) = read_ttls(clicks.checkpoint).values()
    live = [s for s in state.settings if s.by == "live"]
    assert live and {s.who for s in live} == {WHO} and 150 * 60_000 <= live[0].ttl < 9 * HOUR
    told = [note for note in clicks.told() if "is shortened" in note]
    assert len(told) == len(live) and "from 9 h to" in told[0] and "results may miss rows" in told[0]
    found = read_metrics(clicks.checkpoint)
    assert sum(h.total for r in found for h in r.ages.get(state.uid, {}).values()) > 0
