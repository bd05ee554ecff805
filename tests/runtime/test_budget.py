"""How much state a job may keep: what is read of the option, what is told, and what each policy does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from stateplan.common.errors import StateplanError
from stateplan.plans.document import PlanDocument
from stateplan.runtime.budget import BUDGET, POLICY, WHO, Budget, Limit, Limits, State
from stateplan.runtime.checkpoint.live_ttl import Setting, StateTtl, editing, read_ttls
from stateplan.runtime.metrics.ages import Histogram
from stateplan.runtime.metrics.records import BatchMetrics, StateSize
from stateplan.runtime.metrics.state_uses import StateUses
from stateplan.session.budgets import limits_of

HOUR = 3_600_000
PLAN = Path(__file__).parents[1] / "cli" / "data" / "join_plan.json"
LEFT, RIGHT = State(("j", 0), "join.left", HOUR), State(("j", 1), "join.right", None)


def limits(amount: int = 1000, policy: Literal["WARN", "STOP", "SHORTEN"] = "WARN", label: str = "join.left") -> Limits:
    return Limits((Limit(label, (LEFT, RIGHT) if label == "job" else (LEFT,), amount, "rows"),), policy)


def record(batch: int, left: int, right: int = 0) -> BatchMetrics:
    size = StateSize([left, right], [10 * left, 10 * right], [1, 1])
    return BatchMetrics(batch, batch * HOUR, batch * 70_000, 10.0, {}, {"j": size})


class Watched:
    """A budget over a checkpoint whose join has a TTL of ten hours."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        with editing(folder) as known:
            for index in (0, 1):
                known["j", index] = StateTtl("j", index, "x", 10 * HOUR, (Setting(10 * HOUR, 0, "plan", 0),))
        self.records: list[BatchMetrics] = []
        self.told: list[str] = []
        uses = {"j": {"0.joined": Histogram({500: 99, 700: 1})}}
        self.budget = Budget(
            limits,
            folder,
            lambda key: read_ttls(folder)[key].now,
            self.records,
            lambda: StateUses(uses, 0, 100, 0),
            self.told.append,
        )

    def batch(self, number: int, left: int, right: int = 0) -> StateplanError | None:
        found = record(number, left, right)
        self.records.append(found)
        return self.budget.look(found)


def test_it_is_told_once_near_and_once_over_and_again_later(tmp_path: Path) -> None:
    watched = Watched(tmp_path, limits())
    for number, rows in enumerate([700, 790, 800, 900, 1001, 2000, 900, 700, 810]):
        assert watched.batch(number, rows) is None
    shares = [text.split(" of its ")[0] for text in watched.told]
    assert shares == [
        "state budget: join.left has 800 rows, 80%",
        "state budget: join.left has 1,001 rows, 100%",
        "state budget: join.left has 900 rows, 90%",
        "state budget: join.left has 810 rows, 81%",
    ]
    assert (
        "join.left grew by 10 rows in 1.2 min; its TTL is 10 h; 99.99% of 100 uses found a row younger than"
        in (watched.told[0])
    )


def test_the_budget_of_a_job_names_the_state_that_grows(tmp_path: Path) -> None:
    watched = Watched(tmp_path, limits(label="job"))
    watched.batch(0, 600, 100)
    watched.batch(1, 610, 300)
    (text,) = watched.told
    assert text.startswith(
        "state budget: job has 910 rows, 91% of its 1,000 rows; join.right has 300 rows; join.right "
    )
    assert "grew by 200 rows" in text and "no use of its rows was seen" in text


def test_a_job_whose_states_have_no_ttl_is_told(tmp_path: Path) -> None:
    watched = Watched(tmp_path, Limits((Limit("job", (), 1000, "rows"),), "WARN"))
    watched.batch(0, 900)
    assert watched.told == ["state budget: job has 900 rows, 90% of its 1,000 rows; none of its states has a TTL"]


def test_a_job_is_to_stop(tmp_path: Path) -> None:
    watched = Watched(tmp_path, limits(policy="STOP"))
    assert watched.batch(0, 1000) is None
    error = watched.batch(1, 1001)
    assert error is not None and error.code == "RUN166" and "1,001 rows, over its budget of 1,000 rows" in error.message


def test_ttls_get_shorter_down_to_their_floor(tmp_path: Path) -> None:
    watched = Watched(tmp_path, limits(policy="SHORTEN"))
    watched.batch(0, 2000)
    asked = read_ttls(tmp_path)["j", 0].asked
    assert asked is not None and (asked.ttl, asked.who) == (int(4.5 * HOUR), WHO)
    assert "the TTL of join.left is shortened from 10 h to 270 min" in watched.told[-1]
    assert "would have missed 0 of 100 uses so far; results may miss rows" in watched.told[-1]
    watched.batch(1, 5000)
    assert read_ttls(tmp_path)["j", 0].asked == asked, "what is expired needs time to go"
    with editing(tmp_path) as known:
        known["j", 0] = replace(known["j", 0], asked=None).add(Setting(asked.ttl, 1, "live", asked.at, WHO))
    watched.batch(40, 50_000)
    asked = read_ttls(tmp_path)["j", 0].asked
    assert asked is not None and asked.ttl == HOUR
    assert "to 1 h (the floor that the plan allows)" in watched.told[-1]
    with editing(tmp_path) as known:
        known["j", 0] = replace(known["j", 0], asked=None).add(Setting(HOUR, 41, "live", asked.at, WHO))
    watched.batch(80, 60_000)
    assert read_ttls(tmp_path)["j", 0].asked is None
    assert read_ttls(tmp_path)["j", 1].asked is None


def test_states_without_a_floor_keep_their_ttl(tmp_path: Path) -> None:
    watched = Watched(tmp_path, limits(policy="SHORTEN", label="job"))
    watched.batch(0, 1000, 9000)
    asked = {index: read_ttls(tmp_path)["j", index].asked for index in (0, 1)}
    assert asked[0] is not None and asked[0].ttl == HOUR and asked[1] is None


# ---- the option ------------------------------------------------------------------------------------------------


@pytest.fixture
def plan() -> PlanDocument:
    return PlanDocument.load(str(PLAN))


def read(plan: PlanDocument, text: str, policy: str = "WARN") -> Limits | None:
    return limits_of(plan, {BUDGET: text, POLICY: policy})


def test_budgets_are_read(plan: PlanDocument) -> None:
    found = read(plan, "20 gb; join.left=2_000_000 rows ;join.right = 64 mb;")
    assert found is not None and found.policy == "WARN"
    assert [(x.label, x.amount, x.unit, len(x.states)) for x in found.limits] == [
        ("job", 20 << 30, "bytes", 2),
        ("join.left", 2_000_000, "rows", 1),
        ("join.right", 64 << 20, "bytes", 1),
    ]
    assert read(plan, " ") is None
    query = limits_of(plan, {BUDGET: "1 gb; nosuch.state=5 rows"}, of_states=False)
    assert query is not None and [x.label for x in query.limits] == ["job"]
    assert limits_of(plan, {BUDGET: "nosuch.state=5 rows"}, of_states=False) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("lots", "OPT167"),
        ("0 rows", "OPT167"),
        ("5 rows; 1 gb", "OPT167"),
        ("join.left=1 gb; join.left=2 gb", "OPT167"),
        ("=1 gb", "OPT167"),
        ("join.middle=1 gb", "PLAN101"),
    ],
)
def test_budgets_that_are_none(plan: PlanDocument, text: str, code: str) -> None:
    with pytest.raises(StateplanError) as raised:
        read(plan, text)
    assert raised.value.code == code and raised.value.expected


def test_shorter_ttls_need_a_floor(plan: PlanDocument) -> None:
    with pytest.raises(StateplanError, match="OPT168"):
        read(plan, "join.left=5 rows", policy="SHORTEN")
    text = plan.text.replace('"name" : "leftState"', '"name" : "leftState", "minTtl" : "2 h"')
    floored = PlanDocument.parse(text)
    assert floored.text == text and '"minTtl": "2 h"' in str(floored.graph.to_json()).replace("'", '"')
    found = read(floored, "join.left=5 rows", policy="SHORTEN")
    assert found is not None and found.limits[0].states[0].floor == 2 * HOUR
    with pytest.raises(StateplanError, match="OPT168"):
        read(floored, "join.left=5 rows; join.right=5 rows", policy="SHORTEN")
