"""Plans damaged at random: each one loads, or is refused with a code and a place; nothing else ever happens.

``python -m scripts.damage_plans`` does the same with more of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.main import get_command

from stateplan.cli.plan import plan_app
from stateplan.common.errors import PlanError
from stateplan.plans.document import PlanDocument
from stateplan.plans.jsontext import decode
from tests.plans.damage import damaged, diamonds, originals
from tests.plans.shrink import shrink
from tests.support.long_runs import LONG
from tests.support.plan_checks import COMMANDS, NOT_RUN, check, judge

DATA = Path(__file__).parent / "data"


def all_is_well(seed: str, commands: bool) -> bool:
    """Checks one damaged plan; whether it was a plan all the same."""
    case = damaged(Random(seed))
    outcome = check(case.data, case.original.text, commands)
    if outcome.failure:
        pytest.fail(f"damaged(Random({seed!r})), {case}\n{outcome.failure}")
    return outcome.code is None


@pytest.mark.parametrize("part", range(10 if LONG else 3))
def test_damaged_plans_are_refused_or_go_through_everything(part: int) -> None:
    valid = [all_is_well(f"suite/{part}/{number}", commands=False) for number in range(20)]
    assert 0 < sum(valid) < 20


@pytest.mark.parametrize("part", range(4 if LONG else 2))
def test_damaged_plans_go_through_every_command(part: int) -> None:
    valid = [all_is_well(f"commands/{part}/{number}", commands=True) for number in range(10)]
    assert 0 < sum(valid) < 10


def test_damage_that_nobody_has_seen_before() -> None:
    seed = SystemRandom().getrandbits(32)
    for number in range(40 if LONG else 20):
        all_is_well(f"{seed}/{number}", commands=number % 4 == 0)


@given(st.randoms(use_true_random=False))
@settings(
    max_examples=60 if LONG else 30,
    deadline=None,
    suppress_health_check=[HealthCheck.data_too_large, HealthCheck.too_slow],
)
def test_damage_that_hypothesis_looks_for(rng: Random) -> None:
    case = damaged(rng, originals()[:40])
    outcome = check(case.data, case.original.text, commands=False)
    assert outcome.failure is None, f"{case}\n{outcome.failure}"


@given(st.binary(max_size=40) | st.text(max_size=40).map(lambda t: t.encode("utf-16")))
@settings(max_examples=100, deadline=2000)
def test_any_bytes(data: bytes) -> None:
    with pytest.raises(PlanError) as caught:
        PlanDocument.parse(decode(data, "plan.json")[0], "plan.json")
    judge(caught.value)


def test_more_ways_through_a_plan_than_can_be_worked_out() -> None:
    """Forty unions of the one before twice: 2 to the 40 ways; the plan is shown, drawn and edited all the same."""
    plan = json.loads((DATA / "join" / "plan.json").read_text())
    assert diamonds(plan, plan["edges"][0], 40)
    outcome = check(json.dumps(plan).encode())
    assert outcome.failure is None, outcome.failure
    assert outcome.codes["execute"] == outcome.codes["explain"] == "PLAN059"


@pytest.mark.parametrize(("place", "function"), [("projection", "$CAST$1"), ("condition", "$AND$1")])
def test_a_call_without_operands_goes_through_every_command(place: str, function: str) -> None:
    text = (DATA / "dedup" / "plan.json").read_text()
    plan = json.loads(text)
    calc = next(node for node in plan["nodes"] if node["type"].startswith("stream-exec-calc_"))
    first, *others = calc["projection"]
    call = {"kind": "CALL", "syntax": "SPECIAL", "internalName": function, "operands": []}
    calc[place] = [{**call, "type": first["type"]}, *others] if place == "projection" else {**call, "type": "BOOLEAN"}
    outcome = check(json.dumps(plan).encode(), text)
    assert outcome.failure is None, outcome.failure
    assert outcome.code is None, "it is a plan all the same"


def test_every_plan_command_is_tried() -> None:
    assert set(getattr(get_command(plan_app), "commands", ())) == set(COMMANDS) | NOT_RUN, (
        "say in COMMANDS how a new command is run"
    )


def test_a_failure_is_shown_with_a_smaller_file() -> None:
    text = (DATA / "join" / "plan.json").read_bytes()
    small = shrink(text, lambda data: "rightState" in json.dumps(_parsed(data)))
    assert len(small) < len(text) / 10
    assert json.loads(small)["nodes"][0]["state"][0]["name"] == "rightState"
    assert len(shrink(text[:-10], lambda data: b"rightState" in data)) < 100


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except ValueError:
        return None
