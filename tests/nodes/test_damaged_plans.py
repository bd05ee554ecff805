"""Whatever is done to a plan's JSON, loading it gives a graph or an error with a place, never anything else."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

import pytest

from execnodes.errors import StateplanError
from execnodes.fingerprint import assign_uids
from execnodes.graph import ExecGraph
from tests.nodes.node_plans import FROZEN

PLANS = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(FROZEN.glob("*/*.json"))]
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**70, 1.5, "", "x", "1", "1 h", "INT", "ROW<`a` INT>", "a/b~c", [], [1], ["x"],
    [[]], [None], {}, {"type": "HASH"}, {"kind": "INPUT_REF"}, {"a": {"b": [1]}},
)  # fmt: skip


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) in a JSON value."""
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [(value, key) for key in keys] + [place for key in keys for place in places(value[key])]


def damage(plan: Any, rng: random.Random) -> None:
    container, key = rng.choice(places(plan))
    kind = rng.randrange(6)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[f"{key}s"] = container.pop(key)
    elif kind == 2 and isinstance(container, list):
        container.append(copy.deepcopy(container[key]))
    elif kind == 3:
        container[key] = [container[key]]
    elif kind == 4:
        other, name = rng.choice(places(plan))
        container[key] = copy.deepcopy(other[name])
    else:
        container[key] = copy.deepcopy(rng.choice(VALUES))


@pytest.mark.parametrize("seed", range(8))
def test_damaged_plans(seed: int) -> None:
    rng = random.Random(seed)
    loaded = 0
    for _ in range(60):
        plan = copy.deepcopy(rng.choice(PLANS))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            damage(plan, rng)
        for strict in (True, False):
            try:
                graph = ExecGraph.from_json(plan, strict_unknown=strict)
            except StateplanError as error:
                assert error.place is not None
                assert error.place.pointer is not None
                assert error.expected or error.hint, str(error)
                assert len(error.message) < 400
            else:
                loaded += 1
                for node in graph.nodes:
                    assert graph.describe(node)
                json.dumps(assign_uids(graph).to_json())
    assert loaded
