"""The examples of FLIP-292, whose jobs send their events to a server; and parts of these as pages show them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import Jobs
from tests.session.lineage_server import LineageServer, options_for, validate
from tests.support.waiting import until

ROOT = Path(__file__).resolve().parent.parent.parent
ORDERS = [{"order_id": n % 5, "user_id": n, "product_id": n % 2, "num": 1} for n in range(8)]
LOGISTICS = [{"order_id": n, "target": f"town {n}"} for n in range(3)]


def session(folder: Path, url: str, **options: str) -> TableEnvironment:
    """A session with the tables of the examples, whose files are below ``folder``."""
    env = TableEnvironment.create({**options_for(url), **options}, jobs=Jobs())
    for name, rows in (("orders", ORDERS), ("logistics", LOGISTICS)):
        path = folder / "examples" / "data" / name
        path.mkdir(parents=True, exist_ok=True)
        (path / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    tables = (ROOT / "examples" / "tables.sql").read_text().replace("'examples/", f"'{folder}/examples/")
    for statement in tables.split(";")[:-1]:
        env.execute_sql(statement)
    return env


def example(name: str) -> str:
    return (ROOT / "examples" / f"{name}.sql").read_text().strip().removesuffix(";")


def run(env: TableEnvironment, server: LineageServer, sql: str) -> dict[str, Any]:
    """Runs a job; its last event."""
    env.execute_sql(sql).wait()
    until(lambda: server.states()[-1:] in (["COMPLETE"], ["FAIL"], ["ABORT"]), 20, "no last event")
    for event in server.events:
        validate(event)
    return server.events[-1]


def short_columns(event: dict[str, Any]) -> str:
    """The column lineage of the first output, a line per input column."""
    facet = event["outputs"][0]["facets"]["columnLineage"]

    def line(use: dict[str, Any]) -> str:
        return json.dumps({**use, "name": "/shop/" + Path(use["name"]).name})

    fields = ",\n".join(
        f'    "{name}": {{"inputFields": [\n      {line(use)}\n    ]}}'
        for name, fields in facet["fields"].items()
        for use in fields["inputFields"]
    )
    rows = ",\n".join(f"    {line(use)}" for use in facet["dataset"])
    return f'{{\n  "fields": {{\n{fields}\n  }},\n  "dataset": [\n{rows}\n  ]\n}}'


def short_states(event: dict[str, Any]) -> str:
    """The states of the plan, a line each."""
    states = event["run"]["facets"]["stateplan_states"]["states"]
    return '{"states": [\n' + ",\n".join(f"  {json.dumps(state)}" for state in states) + "\n]}"
