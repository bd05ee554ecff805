"""The replayed examples without Spark: SQL to plan to kernels, held against the row-by-row simulation."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from examples import generate, simulate
from examples.demo import parse_changes
from examples.generate import DAY, HOUR
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.support.local import printed

EXAMPLES = Path(generate.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("replay")
    generate.write_replay(folder)
    return folder


def compiled(query: str, folder: Path, ttls: Sequence[int]) -> PlanDocument:
    """The plan of an example over the arrivals in ``folder``, with the TTLs of its states in milliseconds."""
    tables = TableEnvironment.create()
    script = (EXAMPLES / f"replay_{query}.sql").read_text().replace("examples/data/replay", str(folder))
    for statement in read_script(script):
        tables.execute_statement(statement)
    plan = tables.compile_plan_sql((EXAMPLES / f"{query}.sql").read_text()).document
    states = [(node.id, state.index) for node in plan.graph.nodes for state in node.states]
    for (node, index), ttl in zip(states, ttls, strict=True):
        plan.set_ttl(node, index, ttl)
    return plan


def arrivals(folder: Path, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / f"{name}.json").read_text().splitlines()]


@pytest.mark.parametrize(("dedup", "aggregate"), [(1, 24), (24, 1), (0, 0), (2, 2)])
def test_product_stats(folder: Path, dedup: int, aggregate: int) -> None:
    plan = compiled("product_stats", folder, (dedup * HOUR, aggregate * HOUR))
    changes = parse_changes(printed(translate(plan.graph, {}, key_groups=4)))
    never = 1000 * DAY
    wanted = simulate.product_stats(
        arrivals(folder, "redelivered_orders"), dedup * HOUR or never, aggregate * HOUR or never
    )
    got = [(kind, *row) for kind, row in changes if kind != "-U"]
    assert sorted(got, key=lambda r: r[1]) == sorted(wanted, key=lambda r: r[1])


@pytest.mark.parametrize(("left", "right"), [(7, 1), (1, 7), (0, 0), (3, 3)])
def test_order_tracking(folder: Path, left: int, right: int) -> None:
    plan = compiled("order_tracking", folder, (left * DAY, right * DAY))
    changes = parse_changes(printed(translate(plan.graph, {}, key_groups=4)))
    never = 1000 * DAY
    wanted = simulate.order_tracking(
        arrivals(folder, "orders"), arrivals(folder, "logistics"), left * DAY or never, right * DAY or never
    )
    assert {kind for kind, _ in changes} == {"+I"}
    assert sorted(row for _, row in changes) == wanted


def test_the_simulation_can_tell_the_ttls_apart(folder: Path) -> None:
    orders = arrivals(folder, "redelivered_orders")
    results = {str(simulate.product_stats(orders, d * HOUR, a * HOUR)) for d, a in ((1, 24), (24, 1), (1, 1), (24, 24))}
    assert len(results) == 4


def test_the_input_is_the_same_every_time() -> None:
    assert generate.redelivered_orders(random.Random(1)) == generate.redelivered_orders(random.Random(1))
    left, right = generate.orders_and_logistics(random.Random(1))
    assert [row["order_id"] for row in left] == [row["order_id"] for row in right]
