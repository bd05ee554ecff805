"""Migration: frozen old plans, step by step, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stateplan.common.errors import PlanError
from stateplan.execnodes.graph import FLINK_VERSION, FLINK_VERSIONS
from stateplan.plans.document import PlanDocument
from stateplan.plans.jackson import dumps
from stateplan.plans.migrate import migrate, notes, to_json, to_text
from stateplan.plans.migrations import NODE_UPGRADES, OLDEST, RELEASES, Effect, is_before

FROZEN = Path(__file__).parent / "frozen"
"""Plans in the formats of older releases (``old.json``, never written again) and what becomes of them."""

NAMES = sorted(folder.name for folder in FROZEN.iterdir())


def old(name: str) -> PlanDocument:
    return PlanDocument.load(str(FROZEN / name / "old.json"))


def of_version(name: str, version: str) -> PlanDocument:
    data = json.loads((FROZEN / name / "old.json").read_text())
    return PlanDocument.parse(dumps({**data, "flinkVersion": version}))


@pytest.mark.parametrize("name", NAMES)
def test_frozen_plans_become_what_they_became(name: str) -> None:
    migration = migrate(old(name))
    assert migration.document.text == (FROZEN / name / "new.json").read_text()
    assert to_text(migration) == (FROZEN / name / "report.txt").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_what_is_current_is_left_byte_for_byte(name: str) -> None:
    text = (FROZEN / name / "new.json").read_text().replace(" : ", ":  ")  # a layout of its own
    current = PlanDocument.parse(text)
    migration = migrate(current)
    assert migration.is_current
    assert migration.document.text == text
    assert to_text(migration) == "the plan already has the format of Flink 2.3\n"
    assert to_json(migration)["changes"] == []


@pytest.mark.parametrize(
    ("name", "stop"),
    [(n, stop) for n in NAMES for stop in ("1.19", "2.0", "2.1", "2.2") if not is_before(stop, n.partition("-")[0])],
)
def test_stopping_on_the_way_leads_to_the_same_plan(name: str, stop: str) -> None:
    document = old(name)
    halfway = migrate(document, stop).document
    assert halfway.graph.flink_version == stop
    assert migrate(halfway).document.text == migrate(document).document.text


@pytest.mark.parametrize("name", NAMES)
def test_operators_and_their_states_keep_their_names(name: str) -> None:
    migration = migrate(old(name))
    assert [n.id for n in migration.document.graph.nodes] == [n.id for n in migration.source.graph.nodes]
    before, after = migration.source.uids, migration.document.uids
    renamed = {c.node_id for c in migration.changes if c.effect.state == "unknown"}
    assert {i for i in before if before[i] != after[i]} >= renamed
    if migration.state == "identical":
        assert before == after


def test_every_release_has_frozen_plans() -> None:
    versions = {old(name).graph.flink_version for name in NAMES}
    for step in RELEASES:
        covered = [v for v in FLINK_VERSIONS if not is_before(v, step.start) and is_before(v, step.to)]
        assert versions & set(covered), step.name


def test_every_step_changes_a_frozen_plan() -> None:
    done = {name for folder in NAMES for name in migrate(old(folder)).steps}
    wanted = {s.name for s in RELEASES if s.to != "2.3"} | {s.name for s in NODE_UPGRADES.values()}
    assert wanted <= done


def test_releases_follow_one_another_without_gaps() -> None:
    steps = RELEASES
    assert steps[0].start == OLDEST
    assert [step.start for step in steps[1:]] == [step.to for step in steps[:-1]]
    assert steps[-1].to == FLINK_VERSION
    for step in [*steps, *NODE_UPGRADES.values()]:
        assert step.about.endswith(".")
        assert step.state.endswith(".")


def test_steps_may_skip_releases() -> None:
    for version in ("1.18", "1.19"):
        data = json.loads(migrate(of_version("1.18-window", version)).document.text)
        windows = [n["needRetraction"] for n in data["nodes"] if "window-aggregate" in n["type"]]
        assert windows == [False, False]


def test_to_an_older_release_than_the_newest() -> None:
    migration = migrate(old("1.18-window"), "1.20")
    data = json.loads(migration.document.text)
    assert data["flinkVersion"] == "1.20"
    assert {n["type"].rpartition("_")[2] for n in data["nodes"]} == {"1"}
    assert migration.steps == ("Flink 1.18 to 1.20",)
    assert data["nodes"][0]["inputProperties"] == []


def test_a_plan_without_state_metadata_keeps_its_ttl_of_the_session() -> None:
    document = migrate(old("1.17-aggregate")).document
    (aggregate,) = [n for n in document.graph.nodes if n.title == "group-aggregate"]
    assert aggregate.states == ()
    assert aggregate.ttls({"table.exec.state.ttl": "2 h"}) == (7_200_000,)


def test_keys_of_a_join_are_kept_and_its_state_is_not() -> None:
    migration = migrate(old("1.16-join"))
    (join,) = [n for n in migration.document.graph.nodes if n.title == "join"]
    assert join.to_json()["rightUpsertKeys"] == [[0]]
    assert migration.state == "unknown"
    assert migration.flink_state == "unknown"
    assert "unknown (not known)" in notes(migration)[0]


def test_keys_nobody_knows_and_descriptions_stay() -> None:
    data = json.loads((FROZEN / "2.0-over" / "old.json").read_text())
    data["nodes"][1] |= {"mine": {"b": [], "a": 1}, "description": "my words"}
    node = json.loads(migrate(PlanDocument.parse(dumps(data))).document.text)["nodes"][1]
    assert node["mine"] == {"b": [], "a": 1}
    assert node["description"] == "my words"


def test_empty_lists_that_flink_still_writes_stay() -> None:
    node = {"type": "stream-exec-group-aggregate_1", "grouping": [], "aggCalls": [{"argList": []}], "operands": []}
    step = next(s for s in RELEASES if s.to == "2.1")
    assert list(step.upgrade(node)) == []
    assert node["operands"] == []  # not those of a call


def test_options_of_a_table_are_left_alone() -> None:
    table: dict[str, Any] = {
        "resolvedTable": {"schema": {"columns": [], "watermarkSpecs": []}, "options": {"operands": "", "schema": "x"}}
    }
    node = {"type": "stream-exec-sink_1", "dynamicTableSink": {"table": table}}
    (effect,) = next(s for s in RELEASES if s.to == "2.1").upgrade(node)
    assert effect == Effect("empty lists are left out: watermarkSpecs")
    assert table == {"resolvedTable": {"schema": {"columns": []}, "options": {"operands": "", "schema": "x"}}}


def test_a_sink_that_writes_metadata_loses_its_state_in_flink() -> None:
    data = json.loads((FROZEN / "2.1-materializer" / "old.json").read_text())
    sink = data["nodes"][-1]
    assert sink["requireUpsertMaterialize"] is True
    row = "ROW<`state` VARCHAR(2147483647), `order_id` BIGINT> NOT NULL"
    sink["dynamicTableSink"]["abilities"] = [{"type": "WritingMetadata", "metadataKeys": [], "consumedType": row}]
    migration = migrate(PlanDocument.parse(dumps(data)))
    assert migration.state == "identical"
    assert migration.flink_state == "reset"


@pytest.mark.parametrize(
    ("version", "to", "code", "message"),
    [
        ("2.2", "2.1", "PLAN162", "cannot be migrated back to 2.1"),
        ("2.2", "2.4", "PLAN160", "plans cannot be migrated to Flink '2.4'"),
        ("2.2", "1.14", "PLAN160", "plans cannot be migrated to Flink '1.14'"),
        ("1.14", "2.3", "PLAN161", "from Flink 1.14, whose plan format was not stable"),
    ],
)
def test_what_cannot_be_migrated_is_said(version: str, to: str, code: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        migrate(of_version("2.2-union", version), to)
    assert caught.value.code == code
    assert message in caught.value.message
    if code in ("PLAN161", "PLAN162"):
        assert caught.value.place is not None
        assert (caught.value.place.line, caught.value.place.column) == (2, 20)


@pytest.mark.parametrize(
    ("edit", "code"), [(('"2.2"', '"2.9"'), "PLAN066"), (("stream-exec-sink_1", "stream-exec-sink_3"), "PLAN033")]
)
def test_what_is_newer_than_everything_known_is_refused_when_it_is_read(edit: tuple[str, str], code: str) -> None:
    text = (FROZEN / "2.2-union" / "old.json").read_text()
    with pytest.raises(PlanError) as caught:
        PlanDocument.parse(text.replace(*edit))
    assert caught.value.code == code


def test_a_plan_that_would_not_be_valid_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stateplan.plans.migrate.jackson.dumps", lambda data: dumps({**data, "edges": []}))
    with pytest.raises(PlanError) as caught:
        migrate(old("2.2-union"))
    assert caught.value.code == "PLAN163"
