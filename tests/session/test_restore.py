"""A plan fitted to the session's tables."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.execnodes.node_tables import table_of
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.planner.catalog.resolved_tables import reduce_tables
from stateplan.plans.diff import compare
from stateplan.plans.document import PlanDocument
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import RestoredPlan, restore, with_catalog_tables

PLAN = Path(__file__).parent.parent / "plans" / "data" / "join" / "plan.json"
RESTORE = "table.plan.restore.catalog-objects"


def plan(objects: str = "ALL") -> PlanDocument:
    document = PlanDocument.load(str(PLAN))
    return PlanDocument.from_graph(reduce_tables(document.graph, TableEnvironment.create().catalog, objects))


def restored(document: PlanDocument, *statements: str, options: Mapping[str, str] | None = None) -> RestoredPlan:
    env = TableEnvironment.create(options)
    for statement in statements:
        env.execute_sql(statement)
    return restore(document, env.catalog, env.get_config().to_dict())


def options_of(result: RestoredPlan, name: str) -> dict[str, str]:
    for node in result.graph.nodes:
        table = table_of(node)
        if table is not None and table.path[2] == name:
            assert table.resolved_table is not None and table.resolved_table.options is not None
            return dict(table.resolved_table.options)
    raise AssertionError(name)


def fails(document: PlanDocument, *statements: str, options: Mapping[str, str] | None = None) -> str:
    with pytest.raises(StateplanError) as raised:
        restored(document, *statements, options=options)
    return str(raised.value)


def names() -> dict[str, str]:
    """Name of each table of the plan to the statement that declares it as the plan does."""
    out = {}
    for node in plan().graph.nodes:
        table = table_of(node)
        if table is None or table.resolved_table is None or table.resolved_table.options is None:
            continue
        columns = ", ".join(f"`{c.name}` {c.type}" for c in table.resolved_table.table_schema.columns)
        key = table.resolved_table.table_schema.primary_key
        if key is not None:
            columns += f", PRIMARY KEY ({', '.join(key.columns)}) NOT ENFORCED"
        pairs = ", ".join(f"'{k}' = '{v}'" for k, v in table.resolved_table.options.items())
        out[table.path[2]] = f"CREATE TABLE `{table.path[2]}` ({columns}) WITH ({pairs})"
    return out


def test_a_whole_plan_runs_without_a_catalog() -> None:
    document = plan()
    result = restored(document)
    assert result.graph == document.graph
    assert result.notes == ()


def test_the_catalogs_options_win_and_the_plans_are_kept() -> None:
    name, declared = next(iter(names().items()))
    before = options_of(restored(plan()), name)
    result = restored(plan(), declared.replace(f"'{before['path']}'", "'/elsewhere'"))
    assert options_of(result, name) == {**before, "path": "/elsewhere"}
    assert result.notes == (
        f"the table 'default_catalog.default_database.{name}' uses 'path' of the catalog, not of the plan",
    )


def test_only_the_plan_counts_when_the_catalog_is_kept_out() -> None:
    name, declared = next(iter(names().items()))
    before = options_of(restored(plan()), name)
    changed = declared.replace(f"'{before['path']}'", "'/elsewhere'")
    assert options_of(restored(plan(), changed, options={RESTORE: "ALL_ENFORCED"}), name) == before
    message = fails(plan("IDENTIFIER"), options={RESTORE: "ALL_ENFORCED"})
    assert message.startswith(
        "[CAT052] the plan does not hold the full definition of table 'default_catalog.default_database."
    )
    assert fails(plan("SCHEMA"), options={RESTORE: "ALL_ENFORCED"}).startswith("[CAT052]")


@pytest.mark.parametrize("objects", ["IDENTIFIER", "SCHEMA"])
def test_a_plan_without_definitions_needs_the_catalog(objects: str) -> None:
    declared = names()
    result = restored(plan(objects), *declared.values())
    assert [options_of(result, name) for name in declared] == [options_of(restored(plan()), name) for name in declared]
    message = fails(plan(objects))
    assert message.startswith("[CAT050] the table 'default_catalog.default_database.")
    assert "is not in the catalog, and the plan does not hold its full definition" in message
    assert "line 8, column" in message or "line" in message


def test_only_the_catalog_counts() -> None:
    declared = names()
    restored(plan(), *declared.values(), options={RESTORE: "IDENTIFIER"})
    message = fails(plan(), options={RESTORE: "IDENTIFIER"})
    assert message.startswith("[CAT051] the table 'default_catalog.default_database.")
    assert f"'{RESTORE}' = 'IDENTIFIER' ignores the plan's definition" in message


@pytest.mark.parametrize("objects", ["ALL", "SCHEMA"])
@pytest.mark.parametrize(
    ("old", "new", "change"),
    [
        ("`product` VARCHAR(2147483647)", "`product` INT", "column 'product' was STRING, is INT"),
        (
            "`product` VARCHAR(2147483647)",
            "`product` VARCHAR(2147483647) NOT NULL",
            "column 'product' was STRING, is STRING NOT NULL",
        ),
        (", `product` VARCHAR(2147483647)", "", "column 'product' is gone"),
        ("`product`", "`producs`", "column 'product' is gone; column 'producs' is new, of type STRING"),
        ("`product` VARCHAR(2147483647)", "`product` VARCHAR(2147483647), `x` INT", "column 'x' is new, of type INT"),
        ("`product` VARCHAR(2147483647)", "`product` AS 'x'", "column 'product' was physical, is computed"),
        (
            "`product` VARCHAR(2147483647)",
            "`product` VARCHAR(2147483647) METADATA",
            "column 'product' was physical, is metadata",
        ),
    ],
)
def test_columns_that_have_changed(objects: str, old: str, new: str, change: str) -> None:
    declared = names()
    name = next(n for n, text in declared.items() if old in text)
    texts = [text.replace(old, new) if n == name else text for n, text in declared.items()]
    message = fails(plan(objects), *texts).splitlines()
    assert message[0] == (
        f"[CAT053] the table 'default_catalog.default_database.{name}' has changed since the plan was "
        f"compiled: {change}"
    )
    assert message[-1] == "  hint: compile the plan again, or declare the table as it was"


@pytest.mark.parametrize("role", ["source", "sink"])
def test_columns_that_a_plan_without_schema_does_not_fit(role: str) -> None:
    declared = names()
    texts = list(declared.values())
    place = 0 if role == "source" else -1
    assert len(restored(plan("IDENTIFIER"), *texts).graph.nodes) == len(plan().graph.nodes)
    texts[place] = texts[place].replace(" BIGINT", " VARCHAR(7)", 1)
    assert texts[place] != list(declared.values())[place]
    message = fails(plan("IDENTIFIER"), *texts)
    assert message.startswith("[CAT053]")
    assert "its columns are" in message


def test_other_changes() -> None:
    declared = names()
    name, text = next(iter(declared.items()))
    columns = text[text.index("(") + 1 : text.index(") WITH")]
    first = columns.split("`")[1]
    keyed = fails(plan(), text.replace(columns, f"{columns}, PRIMARY KEY (`{first}`) NOT ENFORCED"))
    assert f"the primary key was none, is ({first})" in keyed
    assert "the partition keys differ" in fails(plan(), text.replace(" WITH", f" PARTITIONED BY (`{first}`) WITH", 1))
    turned = text.replace(columns, ", ".join(reversed(columns.split(", "))))
    assert "the columns were ordered" in fails(plan(), turned)
    base = "CREATE TABLE base (a INT) WITH ('connector' = 'datagen')"
    assert fails(plan(), base, f"CREATE TEMPORARY VIEW `{name}` AS SELECT a FROM base").startswith("[CAT054]")


def test_options_that_cannot_be_used_are_refused_with_their_place_in_the_plan() -> None:
    document = plan()
    text = document.text.replace('"connector" : "filesystem"', '"connector" : "filesystems"', 1)
    message = fails(PlanDocument.parse(text, "plan.json"))
    assert message.startswith("[OPT102] unknown connector 'filesystems'\n  --> plan.json, line ")
    assert "did you mean 'filesystem'?" in message


def test_the_scan_keeps_everything_but_its_table() -> None:
    declared = names()
    result = restored(plan(), *declared.values())
    old = [n for n in plan().graph.nodes if isinstance(n, TableSourceScan)]
    new = [n for n in result.graph.nodes if isinstance(n, TableSourceScan)]
    assert [n.scan_table_source.abilities for n in new] == [n.scan_table_source.abilities for n in old]
    assert [n.output_type for n in new] == [n.output_type for n in old]


@pytest.mark.parametrize("kind", ["LEFT", "RIGHT", "FULL"])
def test_a_table_that_takes_only_new_rows_does_not_take_deletions(kind: str) -> None:
    """Whatever the plan says that the sink gets: a plan that was edited may still say ``INSERT``."""
    outer = PlanDocument.parse(PLAN.read_text().replace('"INNER"', f'"{kind}"'))
    assert '"inputChangelogMode" : [ "INSERT" ]' in outer.text
    options = "'connector' = 'filesystem', 'path' = '/rows', 'format' ="
    table = "CREATE TABLE snk (order_id BIGINT, k BIGINT, product STRING, t STRING) WITH"
    assert fails(outer, f"{table} ({options} 'json')").startswith(
        "[CAT055] the table 'default_catalog.default_database.snk' takes no updates and deletions, and calc[6] of "
        "the plan sends them\n  --> line 174, column 24, at /nodes/6/dynamicTableSink/table/identifier"
    )
    restored(outer, f"{table} ({options} 'debezium-json')")
    restored(plan(), f"{table} ({options} 'json')")


@pytest.mark.parametrize("objects", ["IDENTIFIER", "SCHEMA"])
def test_plans_without_options_are_compared_with_the_tables_of_the_catalog(objects: str) -> None:
    document, env = plan(objects), TableEnvironment.create()
    assert compare(plan(), document).verdict == "unknown"
    assert with_catalog_tables(document, env.catalog) is document, "the catalog has no tables"
    for statement in names().values():
        env.execute_sql(statement)
    assert compare(plan(), with_catalog_tables(document, env.catalog)).verdict == "identical"


def test_tables_of_the_catalog_that_do_not_fit_are_not_compared() -> None:
    document, env = plan("SCHEMA"), TableEnvironment.create()
    env.execute_sql(names()["Orders"].replace("`k`", "`kk`"))
    assert with_catalog_tables(document, env.catalog) is document


def test_plans_with_options_are_compared_as_they_are() -> None:
    env = TableEnvironment.create()
    for statement in names().values():
        env.execute_sql(statement.replace("/orders", "/elsewhere"))
    document = plan()
    assert with_catalog_tables(document, env.catalog) is document


def test_the_catalogs_secrets_are_not_compared() -> None:
    env = TableEnvironment.create()
    *tables, _ = names().values()
    secret = "'connector' = 'jdbc', 'url' = 'jdbc:postgresql://db/x', 'table-name' = 't', 'password' = 'opensesame'"
    columns = "order_id BIGINT, k BIGINT, product STRING, t STRING"
    for statement in (*tables, f"CREATE TABLE snk ({columns}) WITH ({secret})"):
        env.execute_sql(statement)
    text = with_catalog_tables(plan("SCHEMA"), env.catalog).text
    assert "jdbc:postgresql://db/x" in text and "opensesame" not in text
