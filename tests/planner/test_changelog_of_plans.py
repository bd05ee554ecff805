"""The kinds of changes told from a plan are those that the planner inferred when it made it."""

from __future__ import annotations

import pytest

from stateplan.common.changelog import ChangelogMode, RowKind
from stateplan.execnodes.changelog_modes import changelog_modes
from stateplan.planner import lowering
from stateplan.planner.algebra.relations import Rank
from stateplan.planner.physical import Physical
from stateplan.plans import jackson
from stateplan.plans.document import PlanDocument
from tests.planner.conftest import compiled
from tests.support.golden import golden_cases
from tests.support.long_runs import LONG


@pytest.mark.parametrize("part", range(8))
def test_same_as_inferred(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inferred: dict[int, Physical] = {}
    add = lowering._Graph.add

    def remembering(self: lowering._Graph, node: Physical) -> int:
        number = add(self, node)
        inferred[number] = node
        return number

    monkeypatch.setattr(lowering._Graph, "add", remembering)
    wrong, compared = [], 0
    for case in golden_cases()[part::8][:: 3 if LONG else 6]:
        inferred.clear()
        graph = PlanDocument.parse(jackson.dumps(compiled(case.script))).graph
        modes = changelog_modes(graph)
        if any(_declared(node.title, inferred[node.id]) for node in graph.nodes):
            continue
        for node in graph.nodes:
            if node.title == "sink":
                continue
            expected = _mode(inferred[node.id])
            compared += 1
            if modes[node.id] != expected:
                wrong.append(f"{case.name}: {node.title}[{node.id}] {modes[node.id]} is {expected}")
    assert compared > (400 if LONG else 200)
    assert not wrong, "\n".join(wrong)


def _declared(title: str, node: Physical) -> bool:
    """Whether Flink infers what the operator does not do: deletions of two aggregations that it then made one, which
    only counts up; that the first row in the order of any field never changes; that the first row by processing time
    changes with mini-batches; that no window that was emitted early loses all its rows."""
    rel = node.rel
    changes = title == "deduplicate" and not node.is_insert_only and isinstance(rel, Rank) and not rel.keeps_last
    emptied = title == "group-window-aggregate" and not node.is_insert_only and not node.input.is_insert_only
    return changes or emptied or title == "incremental-group-aggregate" or (title == "rank" and node.is_insert_only)


def _mode(node: Physical) -> ChangelogMode:
    kinds = {RowKind[k] for k in node.kinds if k != "UPDATE"}
    if "UPDATE" in node.kinds:
        kinds |= {RowKind.UPDATE_AFTER} | ({RowKind.UPDATE_BEFORE} if node.generates_update_before else set())
    return frozenset(kinds)
