"""What ``import plans`` brings along."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
MODULES = sorted(f"stateplan.plans.{p.stem}" for p in (ROOT / "plans").glob("*.py") if p.stem != "__init__")
HEAVY = (
    "pyspark",
    "polars",
    "pyarrow",
    "sqlglot",
    "jsonschema",
    "pandas",
    "numpy",
    "fsspec",
    "stateplan.planner",
    "stateplan.cli",
)

USE = """
from stateplan.plans import diff, diff_report, document, explain, schema, show
d = document.PlanDocument.load("tests/plans/data/join/plan.json").set_ttl(5, 0, "2 h")
show.to_text(show.show(d)), explain.to_text(explain.explain(d)), schema.plan_schema()
diff_report.to_text(diff.compare(d, d))
"""


def run(code: str) -> tuple[list[str], float]:
    """The modules loaded by ``code`` in a fresh interpreter, and the processor time it took."""
    before = sum(os.times()[2:4])
    script = f"import sys\n{code}\nprint(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return out.splitlines()[-1].split(), sum(os.times()[2:4]) - before


def test_nothing_heavy_is_loaded() -> None:
    loaded, _ = run(f"import {', '.join(MODULES)}\n{USE}")
    assert "stateplan.plans.diff" in loaded
    assert [m for m in HEAVY if m in loaded] == [], "import these inside functions, and for types under TYPE_CHECKING"


def test_import_costs_little_more_than_pydantic() -> None:
    ours, pydantic = (
        min(run(f"import {name}")[1] for _ in range(3)) for name in ("stateplan.plans.show", "pydantic.main")
    )
    assert ours < 4 * pydantic
