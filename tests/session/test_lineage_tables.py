"""The datasets of a plan: tables that several nodes use, names without a connector's, metadata, and no secrets."""

from __future__ import annotations

from stateplan.session.environment import TableEnvironment
from stateplan.session.lineage_tables import LineageTable, PlanLineage
from stateplan.session.script import read_script

TABLES = """
CREATE TABLE orders (id BIGINT, num INT, sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp') WITH ('connector' = 'kafka',
  'topic' = 'orders;returns', 'properties.bootstrap.servers' = 'broker:9092', 'format' = 'json',
  'scan.startup.mode' = 'earliest-offset', 'properties.security.protocol' = 'SASL_PLAINTEXT',
  'properties.sasl.username' = 'me', 'properties.sasl.password' = 'hunter2', 'properties.sasl.mechanism' = 'PLAIN');
CREATE TABLE copies (sent TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', id BIGINT, twice INT) WITH ('connector' = 'kafka',
  'topic' = 'copies', 'properties.bootstrap.servers' = 'broker:9092', 'format' = 'json');
CREATE TABLE printed (id BIGINT, num INT) WITH ('connector' = 'print');
"""


def lineage(*inserts: str) -> PlanLineage:
    env = TableEnvironment.create()
    for statement in read_script(TABLES):
        env.execute_statement(statement)
    statements = env.create_statement_set()
    for insert in inserts:
        statements.add_insert_sql(insert)
    text = statements.compile_plan().document.text
    return PlanLineage.of(text, "shop", {})


def drawing(lineage: PlanLineage, output: LineageTable) -> dict[str, list[str]]:
    return {
        name: [f"{dataset.name}.{column} {subtype}" for dataset, column, ((_, subtype),) in lineage.input_columns(uses)]
        for name, uses in {**output.fields, "*": output.rows}.items()
    }


def test_metadata_is_written_behind_the_physical_columns() -> None:
    plan = lineage("INSERT INTO copies SELECT sent, id, num * 2 FROM orders")
    assert [table.dataset.name for table in plan.inputs] == ["orders", "returns"]
    (output,) = plan.outputs
    assert output.dataset == ("kafka://broker:9092", "copies")
    assert drawing(plan, output) == {
        "id": ["orders.id IDENTITY", "returns.id IDENTITY"],
        "twice": ["orders.num TRANSFORMATION", "returns.num TRANSFORMATION"],
        "sent": ["orders.sent IDENTITY", "returns.sent IDENTITY"],
        "*": [],
    }
    assert output.columns == (("sent", "TIMESTAMP(3) WITH LOCAL TIME ZONE"), ("id", "BIGINT"), ("twice", "INT"))


def test_a_table_that_two_statements_write_is_one_dataset() -> None:
    plan = lineage(
        "INSERT INTO printed SELECT id, num FROM orders WHERE num > 1", "INSERT INTO printed SELECT num, 1 FROM orders"
    )
    (output,) = plan.outputs
    assert output.dataset == ("shop", "default_catalog.default_database.printed")
    fields = drawing(plan, output)
    assert fields["id"] == [
        *("orders.id IDENTITY", "orders.num TRANSFORMATION", "returns.id IDENTITY", "returns.num TRANSFORMATION")
    ]
    assert fields["*"] == ["orders.num FILTER", "returns.num FILTER"]


def test_a_table_that_two_scans_read_is_one_dataset() -> None:
    plan = lineage(
        "INSERT INTO printed SELECT id, num FROM orders",
        "INSERT INTO copies SELECT sent, id, 1 FROM orders /*+ OPTIONS('topic' = 'orders') */",
    )
    assert {table.dataset.name: len(table.nodes) for table in plan.inputs} == {"orders": 2, "returns": 1}


def test_no_dataset_has_a_secret() -> None:
    assert "hunter2" not in repr(lineage("INSERT INTO printed SELECT id, num FROM orders"))
