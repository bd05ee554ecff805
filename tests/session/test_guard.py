"""What is said before a plan runs, and which plans may go on from a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment
from stateplan.session.restart import ACCEPT, OUTPUT, continue_from, stale_notes
from tests.plans.conftest import DATA

FOLDER = {"execution.checkpointing.dir": "/ckpt"}


def load(name: str) -> PlanDocument:
    return PlanDocument.load(str(DATA / name / "plan.json"))


def go_on(
    old: PlanDocument, new: PlanDocument, accept: str = "none", options: Mapping[str, str] | None = None
) -> tuple[dict[int, int], list[str]]:
    """For each operator that uses existing state the old one, and the notes."""
    notes: list[str] = []
    found = continue_from(old.text, new, {**FOLDER, ACCEPT: accept, **(options or {})}, notes)
    return dict(found.operators), notes


def test_ttls_need_no_acceptance_and_are_told() -> None:
    join = load("join")
    longer = load("join").set_ttl(5, 0, "2 d")
    assert go_on(join, longer) == ({5: 5}, ["join[5]: leftState: ttl 1 h -> ttl 2 d"])
    shorter = load("join").set_ttl(5, 1, "5 min")
    assert go_on(join, shorter)[1] == ["join[5]: rightState: ttl 1 h -> ttl 5 min; older rows expire at once"]
    never = load("join").set_ttl(5, 1, "0 ms")
    assert go_on(never, join)[1][0].endswith("expire at once")
    assert not go_on(join, never)[1][0].endswith("expire at once")


def test_a_changed_plan_that_continues_in_place_gets_no_corrections() -> None:
    join, corrections = load("join"), {OUTPUT: "corrections"}
    assert go_on(join, load("join"), options=corrections) == ({5: 5}, [])
    with pytest.raises(CheckpointError, match=r"'execution\.state-recovery\.path' = '/ckpt' makes") as raised:
        go_on(join, load("join").set_ttl(5, 0, "2 d"), options=corrections)
    assert raised.value.code == "CKPT055"


def test_another_plan_is_refused_and_says_what_would_be_accepted() -> None:
    old = load("dedup")
    last = PlanDocument.parse(old.text.replace('"keepLastRow" : false', '"keepLastRow" : true'))
    with pytest.raises(CheckpointError) as raised:
        go_on(old, last)
    error = raised.value
    assert error.code == "CKPT003"
    assert error.message.startswith("the checkpoint /ckpt was written by another plan: ")
    assert "--accept reset, or 'execution.state-recovery.accept' = 'reset'" in str(error.hint)


def test_what_is_accepted_includes_what_is_milder() -> None:
    old = load("join")
    left = PlanDocument.parse(old.text.replace('"INNER"', '"LEFT"'))
    for accept in ("none", "rewrite"):
        with pytest.raises(CheckpointError, match="rows that have expired after"):
            go_on(old, left, accept)
    for accept in ("reset", "unknown"):
        carried, notes = go_on(old, left, accept)
        assert carried == {}
        assert notes == ["join[5] starts with empty state: rows that have expired after 1 h may have matched"]
    renamed = PlanDocument.parse(old.text.replace('"leftState"', '"other"'))
    for accept in ("none", "rewrite", "reset"):
        with pytest.raises(CheckpointError, match="is unknown"):
            go_on(old, renamed, accept)
    assert go_on(old, renamed, "unknown")[0] == {}, "what cannot be told is never taken to fit"


def test_a_source_that_reads_something_else_is_refused_whatever_is_accepted() -> None:
    old = load("dedup")
    moved = PlanDocument.parse(old.text.replace("orders.json", "other.json"))
    with pytest.raises(CheckpointError) as raised:
        go_on(old, moved, "unknown")
    assert str(raised.value) == (
        "[CKPT023] table 'default_catalog.default_database.orders' reads other data than the checkpoint /ckpt has "
        "read; option path: ${DIR}/orders.json -> ${DIR}/other.json\n"
        "  expected: option path ${DIR}/orders.json, as in the last run\n"
        "  hint: to read other data, make a new checkpoint with 'stateplan plan evolve'; or set another "
        "'execution.checkpointing.dir', and the job starts with empty state"
    )


KAFKA = {
    "connector": "kafka",
    "topic": "orders",
    "properties.bootstrap.servers": "one:9092",
    "scan.startup.mode": "earliest-offset",
    "format": "json",
}
DELTA = {"connector": "delta", "table-path": "/orders", "mode": "streaming"}
CDC = {
    "connector": "postgres-cdc",
    "hostname": "db",
    "username": "reader",
    "password": "${env:PGPASSWORD}",
    "database-name": "shop",
    "schema-name": "public",
    "table-name": "orders",
    "slot.name": "orders",
}
JDBC = {"connector": "jdbc", "url": "jdbc:postgresql://db/shop", "table-name": "orders"}


def reading(name: str, options: Mapping[str, str]) -> PlanDocument:
    """A plan whose source has other options."""
    data = json.loads((DATA / name / "plan.json").read_text())
    data["nodes"][0]["scanTableSource"]["table"]["resolvedTable"]["options"] = dict(options)
    return PlanDocument.parse(json.dumps(data))


@pytest.mark.parametrize(
    ("options", "more"),
    [
        (KAFKA, {"properties.bootstrap.servers": "two:9093", "properties.security.protocol": "SSL"}),
        (KAFKA, {"scan.max-rows-per-batch": "1000", "scan.bounded.mode": "latest-offset"}),
        (KAFKA, {"format": "debezium-json", "scan.watermark.idle-timeout": "1 min"}),
        (DELTA, {"ignoreDeletes": "true", "maxFilesPerTrigger": "10", "storage.aws_region": "eu-west-1"}),
        (DELTA, {"mode": "batch"}),
        (CDC, {"username": "writer", "scan.max-changes": "1000"}),
        (CDC, {"hostname": "standby", "port": "5433", "scan.startup.mode": "initial"}),
        (KAFKA | {"topic": "orders;returns"}, {"topic": "returns; 'orders'"}),
        (JDBC, {"url": "jdbc:postgresql://standby:5433/shop?sslmode=require&ApplicationName=job"}),
        (JDBC, {"username": "reader", "password": "${env:PGPASSWORD}", "scan.fetch-size": "10"}),
    ],
)
def test_options_that_leave_a_position_as_it_is(options: dict[str, str], more: dict[str, str]) -> None:
    old, new = reading("dedup", options), reading("dedup", options | more)
    (found, notes) = go_on(old, new)
    assert found == {node.id: node.id for node in old.graph.nodes if node.ttls()}
    assert notes == []


@pytest.mark.parametrize(
    ("options", "more", "told"),
    [
        (KAFKA, {"topic": "returns"}, "option topic: orders -> returns"),
        (KAFKA, {"scan.startup.mode": "latest-offset"}, "option scan.startup.mode: earliest-offset -> latest-offset"),
        (KAFKA, {"connector": "upsert-kafka"}, "option connector: kafka -> upsert-kafka"),
        (DELTA, {"table-path": "/returns"}, "option table-path: /orders -> /returns"),
        (DELTA, {"startingVersion": "3", "mode": "streaming"}, "option startingVersion: nothing -> 3"),
        (CDC, {"slot.name": "other"}, "option slot.name: orders -> other"),
        (CDC, {"database-name": "other"}, "option database-name: shop -> other"),
        (
            JDBC,
            {"url": "jdbc:postgresql://db/other"},
            "option url: jdbc:postgresql://db/shop -> jdbc:postgresql://db/other",
        ),
        (JDBC, {"scan.partition.num": "4", "scan.fetch-size": "10"}, "option scan.partition.num: nothing -> 4"),
    ],
)
def test_options_that_say_what_a_position_means(options: dict[str, str], more: dict[str, str], told: str) -> None:
    with pytest.raises(CheckpointError) as raised:
        go_on(reading("dedup", options), reading("dedup", options | more), "unknown")
    assert raised.value.code == "CKPT023"
    assert raised.value.message.endswith(f"reads other data than the checkpoint /ckpt has read; {told}")


COUNTED = (
    "INSERT INTO totals SELECT name, COUNT(*) FROM o JOIN c FOR SYSTEM_TIME AS OF o.pt ON o.id = c.id GROUP BY name"
)


def looking_up(table: Mapping[str, str]) -> PlanDocument:
    """The plan of a count over rows of a table that are looked up."""
    env = TableEnvironment.create()
    columns = {
        "o": ("id BIGINT, pt AS PROCTIME()", KAFKA),
        "c": ("id BIGINT, name BIGINT", table),
        "totals": ("name BIGINT, n BIGINT", {"connector": "print"}),
    }
    for name, (declared, options) in columns.items():
        given = ", ".join(f"'{key}' = '{text}'" for key, text in options.items())
        env.execute_sql(f"CREATE TABLE {name} ({declared}) WITH ({given})")
    return env.compile_plan_sql(COUNTED).document


def test_state_does_not_depend_on_how_a_table_is_reached_that_is_looked_up() -> None:
    old = looking_up(JDBC)
    moved = {"url": "jdbc:postgresql://standby:5433/shop?sslmode=require", "username": "u", "password": "p"}
    new = looking_up({**JDBC, **moved, "lookup.cache": "PARTIAL", "lookup.partial-cache.max-rows": "9"})
    kept = {node.id: node.id for node in old.graph.nodes if node.ttls()}
    assert kept
    assert go_on(old, new)[0] == kept
    with pytest.raises(CheckpointError, match="url: jdbc:postgresql://db/shop -> jdbc:postgresql://db/other"):
        go_on(old, looking_up(JDBC | {"url": "jdbc:postgresql://db/other"}))


def writing(options: Mapping[str, str]) -> PlanDocument:
    """A plan whose sink keeps the rows of each key, with other options."""
    data = json.loads((DATA / "sink_materializer" / "plan.json").read_text())
    data["nodes"][-1]["dynamicTableSink"]["table"]["resolvedTable"]["options"] = dict(options)
    return PlanDocument.parse(json.dumps(data))


def test_state_of_a_sink_does_not_depend_on_how_its_table_is_reached() -> None:
    old = writing(KAFKA)
    new = writing(KAFKA | {"properties.bootstrap.servers": "two:9093", "sink.delivery-guarantee": "exactly-once"})
    kept = {node.id: node.id for node in old.graph.nodes if node.ttls()}
    assert go_on(old, new)[0] == kept
    assert len(go_on(old, writing(KAFKA | {"topic": "other"}), "reset")[0]) < len(kept)


def test_a_source_without_options_cannot_be_told() -> None:
    old = load("dedup")
    data = json.loads(old.text)
    del data["nodes"][0]["scanTableSource"]["table"]["resolvedTable"]["options"]
    with pytest.raises(CheckpointError) as raised:
        go_on(old, PlanDocument.parse(json.dumps(data)), "unknown")
    assert raised.value.code == "CKPT023"
    assert raised.value.message == (
        "whether table 'default_catalog.default_database.orders' reads the data that the checkpoint "
        "/ckpt has read is unknown; the new plan does not contain the options of "
        "default_catalog.default_database.orders: the compatibility of its state is unknown"
    )


def test_other_sources_are_refused_whatever_is_accepted() -> None:
    two = load("join")
    with pytest.raises(CheckpointError) as raised:
        go_on(load("dedup"), two, "unknown")
    assert raised.value.code == "CKPT022"
    assert "it is a new source" in raised.value.message


@pytest.fixture
def env() -> TableEnvironment:
    environment = TableEnvironment.create({"table.exec.state.ttl": "1 h", "table.local-time-zone": "UTC"})
    environment.execute_sql(
        "CREATE TABLE t (k INT, v INT, w AS v + 1) WITH ('connector' = 'filesystem', 'path' = '/t', 'format' = 'json')"
    )
    environment.execute_sql("CREATE TABLE s (k INT, n BIGINT) WITH ('connector' = 'print')")
    return environment


def compiled(env: TableEnvironment) -> str:
    return env.compile_plan_sql("INSERT INTO s SELECT k, COUNT(*) FROM t GROUP BY k").as_json_string()


def notes_of(env: TableEnvironment, text: str, options: Mapping[str, str] | None = None) -> list[str]:
    return list(stale_notes(PlanDocument.parse(text), env.catalog, options or {}))


def test_nothing_is_said_of_a_plan_that_is_what_it_was(env: TableEnvironment) -> None:
    assert notes_of(env, compiled(env)) == []
    assert list(stale_notes(load("join"), env.catalog, {})) == [], "a plan of Flink records nothing to compare with"


def test_edited_sql_and_schema(env: TableEnvironment) -> None:
    plan = json.loads(compiled(env))
    sink = next(n for n in plan["nodes"] if "sink" in n["type"])
    sink["stateplan"]["sql"] += " HAVING COUNT(*) > 1"
    assert notes_of(env, json.dumps(plan)) == ["the SQL text in the plan was edited; this does not change the plan"]
    plan = json.loads(compiled(env))
    sink = next(n for n in plan["nodes"] if "sink" in n["type"])
    sink["dynamicTableSink"]["table"]["resolvedTable"]["schema"]["columns"][0]["name"] = "key"
    found = notes_of(env, json.dumps(plan))
    assert found[0].startswith("the schema of ")
    assert "was edited since the plan was compiled" in found[0]


def test_a_table_that_is_declared_otherwise(env: TableEnvironment) -> None:
    text = compiled(env)
    env.execute_sql("DROP TABLE t")
    env.execute_sql(
        "CREATE TABLE t (k INT, v INT, w AS v + 2) WITH ('connector' = 'filesystem', 'path' = '/t', 'format' = 'json')"
    )
    found = notes_of(env, text)
    assert len(found) == 1
    assert "changed since the plan was compiled" in found[0]


def test_options_in_vain(env: TableEnvironment) -> None:
    text = compiled(env)
    assert notes_of(env, text, {"table.exec.state.ttl": "2 h"}) == [
        "the session option 'table.exec.state.ttl' does not change the TTL in the plan"
    ]
    assert notes_of(env, text, {"table.exec.state.ttl": "60 min"}) == [], "it is what the plan says"
    plan = json.loads(text)
    plan["nodes"][1]["configuration"] = {"table.exec.sink.not-null-enforcer": "ERROR"}
    assert notes_of(env, json.dumps(plan), {"table.exec.sink.not-null-enforcer": "error"}) == []
    assert notes_of(env, json.dumps(plan), {"table.exec.sink.not-null-enforcer": "DROP"}) == [
        "the plan was compiled with 'table.exec.sink.not-null-enforcer' = 'ERROR'; 'DROP' in the session has no effect"
    ]
