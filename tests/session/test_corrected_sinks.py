"""Which sinks of a changed plan get corrections."""

from __future__ import annotations

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.plans.diff import compare
from stateplan.plans.document import PlanDocument
from stateplan.session.corrections import corrected_sinks
from stateplan.session.environment import TableEnvironment

TABLES = """
CREATE TABLE orders (id BIGINT, product STRING) WITH ('connector' = 'filesystem', 'path' = '/old', 'format' = 'json');
CREATE TABLE imported (id BIGINT, product STRING) WITH ('connector' = 'filesystem', 'path' = '/new', 'format' = 'json');
CREATE TABLE counts (product STRING, n BIGINT) WITH ('connector' = 'print');
CREATE TABLE lines (id BIGINT, product STRING) WITH ('connector' = 'print')
"""
FILES = "'connector' = 'filesystem', 'path' = '/{}', 'format' = 'debezium-json'"
COUNTS = "INSERT INTO counts SELECT product, COUNT(*) FROM orders GROUP BY product"
LINES = "INSERT INTO lines SELECT id, product FROM orders"


def plan(*inserts: str, tables: str = TABLES) -> PlanDocument:
    env = TableEnvironment.create()
    for statement in tables.strip().split(";\n"):
        env.execute_sql(statement)
    return env.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END").document


def corrected(old: PlanDocument, new: PlanDocument) -> dict[str, str | None]:
    """By table, the table that the old plan has written."""
    sources = {
        o.new.id: o.old.id
        for o in compare(old, new).operators
        if o.reads_on and o.old is not None and o.new is not None
    }
    found = corrected_sinks(old, new, sources)
    return {_table(new, now): None if was is None else _table(old, was) for now, was in found.items()}


def _table(plan: PlanDocument, sink: int) -> str:
    return str(plan.graph.node(sink).meaning()["table"][-1])


def test_sinks_with_other_results_and_new_sinks_are_corrected() -> None:
    old = plan(COUNTS)
    assert corrected(old, plan(LINES, COUNTS)) == {"lines": None}
    filtered = COUNTS.replace("orders", "orders WHERE id > 1")
    assert corrected(old, plan(filtered, LINES)) == {"counts": "counts", "lines": None}
    assert corrected(plan(COUNTS, LINES), old) == {}


def test_a_sink_of_a_source_that_begins_is_corrected() -> None:
    assert corrected(plan(COUNTS), plan(COUNTS.replace("orders", "imported"))) == {"counts": "counts"}


def test_a_table_at_another_place_is_another_table() -> None:
    tables = TABLES.replace("n BIGINT) WITH ('connector' = 'print'", f"n BIGINT) WITH ({FILES.format('a')}")
    moved = tables.replace("'/a'", "'/b'")
    assert corrected(plan(COUNTS, tables=tables), plan(COUNTS, tables=moved)) == {"counts": None}
    assert corrected(plan(COUNTS, tables=tables), plan(COUNTS, tables=tables)) == {}


@pytest.mark.parametrize(
    ("new", "tables", "why"),
    [
        ((COUNTS, "INSERT INTO counts (n) SELECT id FROM imported"), TABLES, "several INSERT statements write it"),
        ((COUNTS,), TABLES.replace("n BIGINT", "n DECIMAL(20, 0)"), "its columns are others than in the old plan"),
    ],
)
def test_tables_that_cannot_be_corrected_are_refused(new: tuple[str, ...], tables: str, why: str) -> None:
    with pytest.raises(CheckpointError) as error:
        corrected(plan(COUNTS), plan(*new, tables=tables))
    assert error.value.code == "CKPT055"
    assert error.value.message == f"table 'default_catalog.default_database.counts' cannot get corrections: {why}"
