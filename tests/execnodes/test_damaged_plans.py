"""Whatever is done to a plan's JSON, loading it gives a graph or an error with a place, never anything else."""

from __future__ import annotations

import json
import random

import pytest

from stateplan.common.errors import StateplanError
from stateplan.execnodes.fingerprint import assign_uids
from stateplan.execnodes.graph import ExecGraph
from tests.plans.damage import damaged_value


@pytest.mark.parametrize("seed", range(8))
def test_damaged_plans(seed: int) -> None:
    rng = random.Random(seed)
    loaded = 0
    for _ in range(60):
        plan = damaged_value(rng)
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
