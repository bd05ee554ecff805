"""What a run of dbt does with a streaming table that has changed, and what it refuses. Jobs run in this process, to the
end of their input; those of a gateway are in the tutorial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integrations.dbt_projects import Project, Run

pytestmark = pytest.mark.filterwarnings("ignore")

SOURCES = """
sources:
  - name: raw
    tables:
      - name: orders
        external:
          options: {connector: filesystem, path: "{{ env_var('PWD') }}/orders", format: json}
          stream: {source.monitor-interval: 1 s}
        columns:
          - {name: id, data_type: BIGINT}
          - {name: product, data_type: STRING}
          - {name: num, data_type: INT}
"""
SALES = "select product, count(*) as orders, sum(num) as items from {{ source('raw', 'orders') }} group by product"


def sales(query: str = SALES, **config: object) -> dict[str, str]:
    settings = {"materialized": "streaming_table", "primary_key": "product", **config}
    return {"models/sales.sql": "{{ config(" + ", ".join(f"{k}={v!r}" for k, v in settings.items()) + ") }}\n" + query}


@pytest.fixture(scope="module")
def project(dbt_packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = Project(tmp_path_factory.mktemp("shop"))
    project.write(
        {
            "dbt_project.yml": "name: shop\nversion: '1.0'\nprofile: shop\n",
            "profiles.yml": "shop: {target: ci, outputs: {ci: {type: stateplan, method: local, path: lake}}}\n",
            "models/sources.yml": SOURCES,
            "orders/1.json": '{"id": 1, "product": "pen", "num": 2}\n{"id": 2, "product": "ink", "num": 1}\n',
            **sales(),
        }
    )
    return project


def outcome(run: Run, node: str = "sales") -> str:
    """The word that begins the message of a node."""
    assert run.success, run.lines
    return run.messages[node].split()[0]


def test_a_streaming_table_in_this_process(project: Project) -> None:
    assert outcome(project.dbt("run")) == "RUN"
    plan = (project.folder / "plans/sales.json").read_text()
    project.write({"orders/2.json": '{"id": 3, "product": "pen", "num": 5}\n'})
    project.write(sales(ttl={"group-aggregate": "30 d"}))
    assert outcome(project.dbt("run")) == "RUN"
    assert project.rows("select * from {{ ref('sales') }} order by product") == [
        {"product": "ink", "orders": 1, "items": 1},
        {"product": "pen", "orders": 2, "items": 7},
    ]
    assert plan != (project.folder / "plans/sales.json").read_text(), "the TTL is in the plan"
    wider = SALES.replace(" from", ", max(num) as largest from")
    project.write(sales(wider, on_change="fail"))
    refused = project.dbt("run")
    assert not refused.success and "backfill" in refused.messages["sales"]
    assert list(project.rows("select * from {{ ref('sales') }}")[0]) == ["product", "orders", "items"]
    project.write(sales(wider))
    assert outcome(project.dbt("run")) == "EVOLVED"
    project.write({"orders/3.json": '{"id": 4, "product": "pen", "num": 1}\n'})
    assert outcome(project.dbt("run")) == "RUN"
    assert project.rows("select * from {{ ref('sales') }} order by product") == [
        {"product": "ink", "orders": 1, "items": 1, "largest": None},
        {"product": "pen", "orders": 3, "items": 8, "largest": 5},
    ]


def test_a_table_that_cannot_stay(project: Project) -> None:
    fewer = "select product, count(*) as orders from {{ source('raw', 'orders') }} group by product"
    project.write(sales(fewer))
    refused = project.dbt("run")
    assert not refused.success
    assert "it has the column items, largest, and the model does not" in refused.messages["sales"]
    project.write(sales(fewer, on_change="rebuild"))
    assert outcome(project.dbt("run")) == "RUN"
    assert project.rows("select * from {{ ref('sales') }} order by product") == [
        {"product": "ink", "orders": 1},
        {"product": "pen", "orders": 3},
    ]
    assert outcome(project.dbt("run", "--full-refresh")) == "RUN"


def test_what_is_refused_leaves_everything_as_it_is(project: Project) -> None:
    fewer = "select product, count(*) as orders from {{ source('raw', 'orders') }} group by product"
    endless = SOURCES.replace("format: json}\n          stream: {", "format: json, ")
    wrong = {
        "its on_change": (sales(fewer, on_change="perhaps"), "must be one of evolve, rebuild, fail"),
        "a selector": (sales(fewer, ttl={"join.left": "1 d"}), "PLAN101"),
        "SQL": (sales("select nothing from {{ source('raw', 'orders') }}"), "SQL"),
        "no key": ({"models/sales.sql": "{{ config(materialized='streaming_table') }}" + fewer}, "its key is product"),
        "endless input": ({"models/sources.yml": endless}, "does not end"),
        "a snapshot": (
            {
                "snapshots/s.sql": "{% snapshot s %}{{ config(unique_key='id', strategy='check', check_cols='all') }}"
                "select * from {{ source('raw', 'orders') }}{% endsnapshot %}"
            },
            "snapshots are not supported",
        ),
        "a materialized view": (
            {"models/v.sql": "{{ config(materialized='materialized_view') }} select 1 as a"},
            "use the materialization 'streaming_table'",
        ),
    }
    for name, (files, words) in wrong.items():
        project.write(files)
        run = project.dbt("build")
        assert not run.success, name
        assert any(words in message for message in run.messages.values()), (name, run.messages)
        project.write({"models/sources.yml": SOURCES, **sales(fewer)})
        for extra in ("snapshots/s.sql", "models/v.sql"):
            (project.folder / extra).unlink(missing_ok=True)
    assert project.rows("select sum(orders) as n from {{ ref('sales') }}") == [{"n": 4}]


def test_contracts_and_docs(project: Project) -> None:
    columns = "columns: [{name: product, data_type: string}, {name: orders, data_type: %s}]"
    contract = "models: [{name: sales, config: {contract: {enforced: true}}, " + columns + "}]\n"
    project.write({"models/models.yml": contract % "int"})
    run = project.dbt("run")
    assert not run.success and "contract" in run.messages["sales"]
    project.write({"models/models.yml": contract % "bigint"})
    assert outcome(project.dbt("run")) == "RUN"
    assert project.dbt("docs", "generate").success
    catalog = json.loads((project.folder / "target/catalog.json").read_text())
    node = catalog["nodes"]["model.shop.sales"]
    assert [column["type"] for column in node["columns"].values()] == ["STRING", "BIGINT"]
    assert "groupAggregateState" in node["stats"]["state"]["value"]
    assert "GroupAggregate(groupBy=[product]" in node["stats"]["plan"]["value"]
    assert node["stats"]["job"]["value"].endswith("FINISHED")
