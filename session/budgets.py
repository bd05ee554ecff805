"""Reads how much state a job may keep: ``table.exec.state.budget``, whose states selectors of the plan name.

Codes: OPT167, OPT168.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Literal

from stateplan.common.errors import OptionError
from stateplan.common.options import parse_memory_size
from stateplan.common.settings import value
from stateplan.plans.document import PlanDocument
from stateplan.plans.selector_text import parse_selector
from stateplan.plans.selectors import Selectors
from stateplan.plans.states import StateView
from stateplan.runtime.budget import BUDGET, JOB, POLICY, Limit, Limits, State

_ROWS = re.compile(r"(\d[\d_]*)\s*rows?", re.IGNORECASE)


def limits_of(document: PlanDocument, options: Mapping[str, str], of_states: bool = True) -> Limits | None:
    """The limits of a plan's states; None if the session sets none.

    Args:
        document: the plan.
        options: the options of the session.
        of_states: whether limits of states count, and not only that of the job: a SELECT between two jobs has other
            states than they have.

    Raises:
        OptionError: OPT167, the budget cannot be read; OPT168, TTLs are to be shortened and no state has a floor.
        PlanError: PLAN100 to PLAN104, a selector points at no state.
    """
    text = options.get(BUDGET, "")
    if not text.strip():
        return None
    selectors = Selectors(document, options)
    floors = {
        (document.uids[node.id], index): state.min_ttl
        for node in document.graph.nodes
        for index, state in enumerate(node.states)
    }

    def states(views: tuple[StateView, ...]) -> tuple[State, ...]:
        return tuple(State((v.uid, v.index), selectors.name_alone(v), floors.get((v.uid, v.index))) for v in views)

    limits = []
    for name, amount, unit in _parts(text):
        if name != JOB and not of_states:
            continue
        views = selectors.views if name == JOB else selectors.select(parse_selector(name))
        limits.append(Limit(name, states(views), amount, unit))
    policy = value(options, POLICY)
    if policy == "SHORTEN":
        fixed_limits = [limit.label for limit in limits if all(state.floor is None for state in limit.states)]
        if fixed_limits:
            raise OptionError("OPT168", key=POLICY, labels=", ".join(fixed_limits))
    return Limits(tuple(limits), policy) if limits else None


def _parts(text: str) -> Iterator[tuple[str, int, Literal["rows", "bytes"]]]:
    """Name, amount and unit of each part of ``10 gb; join.left=2000000 rows``."""
    names = set()
    for part in filter(None, map(str.strip, text.split(";"))):
        left, equals, right = part.rpartition("=")
        name = left.strip() if equals else JOB
        if name in names or not name:
            raise OptionError(
                "OPT167", key=BUDGET, part=part, problem="names no state, or one that already has a budget"
            )
        names.add(name)
        rows = _ROWS.fullmatch(right.strip())
        try:
            amount = int(rows[1].replace("_", "")) if rows else parse_memory_size(right.strip())
        except ValueError:
            amount = 0
        if amount <= 0:
            raise OptionError("OPT167", key=BUDGET, part=part, problem="is not a budget")
        yield name, amount, "rows" if rows else "bytes"
