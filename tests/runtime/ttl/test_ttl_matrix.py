"""Update type x visibility x time characteristic x kind of operator: plans of SQL, played without Spark.

What each cell must give is said by :data:`OUTCOMES`, by the rules of FLIP-25, in the lines of the operator at hand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from stateplan.common.errors import PlanError
from stateplan.execnodes.nodes.base import StatefulNode, TimeBoundNode
from stateplan.execnodes.registry import node_classes
from stateplan.runtime.translate import translate
from tests.runtime.ttl.flip25 import CONFIGS
from tests.runtime.ttl.ttl_plays import KINDS, Kind, Play, aged, compiled, story

OUTCOMES = {
    # Was the entry written at 0 s found at 12 s, and is there one at 13 s, where reading does not write?
    ("OnCreateAndWrite", "NeverReturnExpired"): (False, False),
    ("OnCreateAndWrite", "ReturnExpiredIfNotCleanedUp"): (True, False),
    ("OnReadAndWrite", "NeverReturnExpired"): (True, True),
    ("OnReadAndWrite", "ReturnExpiredIfNotCleanedUp"): (True, True),
}


def expected(kind: Kind, update: str, visibility: str) -> tuple[list[str], list[str]]:
    """The lines of asking at 12 s and at 13 s."""
    if not kind.read:
        update = "OnCreateAndWrite"
    first, second = OUTCOMES[update, visibility]
    if not kind.asks_again:
        return (kind.found if first else kind.lost), []
    if kind.asking_writes:
        return (kind.found if first else kind.lost), kind.again_found if first else kind.again_lost
    if first:
        return kind.found, kind.found if second else kind.lost
    return kind.lost, kind.again_lost


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("plays")


@pytest.mark.parametrize("words", CONFIGS.values(), ids=CONFIGS)
@pytest.mark.parametrize("name", KINDS)
def test_cell(name: str, words: Sequence[str], folder: Path) -> None:
    kind = KINDS[name]
    plan = compiled(kind.query, kind.sink, tuple(kind.options.items()), str(folder))
    plan = aged(plan, kind.node, kind.slot, "10 s", *words)
    if words[2] == "EventTime" and not kind.event_time:
        with pytest.raises(PlanError) as error:
            translate(plan.graph, {}, key_groups=1)
        assert error.value.code == "PLAN190"
        return
    play = Play(plan, folder, words[2] == "EventTime")
    assert story(kind, play) == expected(kind, words[0], words[1])


OTHER_TESTS = {
    "group-table-aggregate",
    "incremental-group-aggregate",
    "lookup-join",
    "process-table-function",
    "python-group-aggregate",
    "temporal-join",
}
"""Operators that cannot tell the story in this way, with tests of their own."""


def test_every_operator_with_a_ttl_tells_the_story() -> None:
    nodes = {cls for cls in node_classes().values() if issubclass(cls, StatefulNode)}
    titles = {cls.NAME.removeprefix("stream-exec-") for cls in nodes if not issubclass(cls, TimeBoundNode)}
    lacking = titles - {kind.node for kind in KINDS.values()} - OTHER_TESTS
    assert not lacking, f"add a Kind for {lacking} to KINDS of tests/runtime/ttl/ttl_plays.py"


def test_the_effect_of_every_ttl_is_described() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "plans" / "plan-format.md").read_text(encoding="utf-8")
    section = page.split("### What a TTL does")[1].split("## Additions to Flink's format")[0]
    titles = {cls.NAME.removeprefix("stream-exec-") for cls in node_classes().values() if cls.STATE_NAMES}
    lacking = {title for title in titles if not re.search(rf"(?<![\w-]){title}(?![\w-])", section)}
    assert not lacking, f"describe {lacking} in docs/plans/plan-format.md, 'What a TTL does'"
