"""TTLs of a micro-batch that differ from those of the plan, on their way from the driver to the tasks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stateplan.runtime.jobgraph import JobGraph

Ttls = Mapping[tuple[str, int], int]
"""A state, by the uid of its operator and its number there, to its TTL in ms."""


def ttls_text(ttls: Ttls) -> str:
    """The text that :func:`with_ttls` reads; empty if the TTLs of the plan hold."""
    states = [{"uid": uid, "state": number, "ttl": ttl} for (uid, number), ttl in ttls.items()]
    return json.dumps(states, separators=(",", ":")) if states else ""


def with_ttls(graph: JobGraph, text: str) -> JobGraph:
    """The job with the TTLs that :func:`ttls_text` was given."""
    ttls = {(state["uid"], state["state"]): state["ttl"] for state in json.loads(text)}
    operators = []
    for spec in graph.operators:
        configs = (replace(c, ttl=ttls.get((spec.uid, number), c.ttl)) for number, c in enumerate(spec.ttl))
        operators.append(replace(spec, ttl=tuple(configs)))
    return replace(graph, operators=tuple(operators))
