"""Writes the plans of new scripts in ``tests/planner/own_plans``: ``python -m scripts.own_plans``.

A plan that is there is never written again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.planner.conftest import compiled, plain, script_of

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "planner" / "own_plans"


def plan_text(script: str) -> str:
    """The plan that a script compiles to, an operator a line, without what only stateplan writes."""
    plan = plain(compiled(script))
    nodes, edges = (
        ",\n".join(json.dumps(part, separators=(",", ":"), ensure_ascii=False) for part in plan[key])
        for key in ("nodes", "edges")
    )
    version = json.dumps(plan["flinkVersion"])
    return f'{{"flinkVersion":{version},"nodes":[\n{nodes}\n],"edges":[\n{edges}\n]}}\n'


def main() -> int:
    for folder in sorted(path.parent for path in FOLDER.glob("*/script.sql")):
        plan = folder / "plan.json"
        if not plan.exists():
            plan.write_text(plan_text(script_of(folder)), encoding="utf-8")
            print(f"wrote {plan}: check that the plan is as wanted")
    return 0


if __name__ == "__main__":
    sys.exit(main())
