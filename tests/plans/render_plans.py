"""Plans to render: with hostile names, and very large ones."""

from __future__ import annotations

import json
import re
from pathlib import Path

from stateplan.plans.document import PlanDocument
from tests.plans.conftest import DATA

NASTY = (
    "</script><img src=x onerror=alert(1)>\"'`&amp;<!--]]></style><svg onload=alert(1)>",
    "\u202eevil\u2066",
    "]]>%%{init: {}}%%\nclick n1 href",
    "表の名前" * 40,
    "a" * 900,
)


def named(text: str) -> PlanDocument:
    """The plan of a join whose left table, and all that is said of it, has this name."""
    source = (DATA / "join" / "plan.json").read_text("utf-8")
    quoted = json.dumps(text.replace("`", "``"), ensure_ascii=False)[1:-1]
    field = json.dumps(text, ensure_ascii=False)[1:-1]
    identifier = re.search(r"`default_database`\.`[^`]*`", source)
    assert identifier is not None
    assert '"name" : "product"' in source
    changed = source.replace(identifier[0], f"`default_database`.`{quoted}`")
    return PlanDocument.parse(changed.replace('"name" : "product"', f'"name" : "{field}"'), f"{text}.json")


def side_by_side(shared: Path, operators: int) -> PlanDocument:
    """All of Flink's plans as one, again and again until there are so many operators."""
    plans = [json.loads(case.read_text()) for case in sorted(shared.glob("cases/*/plan.json"))]
    nodes: list[dict[str, object]] = []
    edges: list[dict[str, object]] = []
    offset = 0
    while len(nodes) < operators:
        for plan in plans:
            nodes += [{**node, "id": node["id"] + offset} for node in plan["nodes"]]
            edges += [{**e, "source": e["source"] + offset, "target": e["target"] + offset} for e in plan["edges"]]
            offset += max(node["id"] for node in plan["nodes"])
    return PlanDocument.parse(json.dumps({"flinkVersion": "2.3", "nodes": nodes, "edges": edges}))
