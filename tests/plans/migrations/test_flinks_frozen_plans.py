"""Every plan that Flink 1.19, 1.20 and 2.0 froze, migrated."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.plans.document import PlanDocument
from stateplan.plans.explain import explain
from stateplan.plans.explain import to_text as explained
from stateplan.plans.migrate import migrate
from stateplan.plans.show import show, to_text
from tests.conftest import shared_folder

_SHARED = shared_folder()
_PLANS = sorted((_SHARED / "plans").glob("*/*.json")) if _SHARED else []


@pytest.mark.parametrize("plan", _PLANS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_it_loads_shows_and_keeps_its_state(plan: Path) -> None:
    migration = migrate(PlanDocument.load(str(plan)))
    document = migration.document
    assert document.graph.flink_version == "2.3"
    assert migration.state == "identical"
    assert migration.source.uids == document.uids
    assert migrate(document).is_current
    assert len(show(document).operators) == len(document.graph.nodes)
    assert to_text(show(document))
    assert explained(explain(document)) == explained(explain(migration.source))
    types = {node.type for node in document.graph.nodes}
    assert not types & {"stream-exec-sink_1", "stream-exec-table-source-scan_1"}


def test_they_are_all_there(shared: Path) -> None:
    assert len(_PLANS) == 135
