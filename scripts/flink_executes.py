"""Plans of the golden cases, compiled here, executed by Flink: the materialised results must be Flink's own.

    python -m scripts.flink_executes --oracle FOLDER [CASE ...]

FOLDER is a copy of ``shared/flink/oracle`` after its ``setup.sh``. Exit code 1 when a result differs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from stateplan.planner.session.environment import TableEnvironment
from stateplan.planner.session.script import read_script
from tests.support.cases import IN_SCOPE, Case

CASES = Path(__file__).parents[2] / "shared" / "flink" / "cases"


def oracle_module(folder: Path) -> Any:
    """The module of the oracle in ``folder``."""
    spec = importlib.util.spec_from_file_location("oracle", folder / "oracle.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiled(case: Case, plan: Path) -> None:
    """Compiles the INSERT or the statement set of a case to ``plan``."""
    tables = TableEnvironment.create()
    for statement in read_script(case.script):
        text = statement.text.strip().rstrip(";")
        if text.upper().startswith("EXECUTE STATEMENT SET"):
            text = text[len("EXECUTE ") :]
        if text.upper().startswith(("INSERT", "STATEMENT SET")):
            text = f"COMPILE PLAN '{plan}' FOR {text}"
        tables.execute_sql(text)
    _with_own_sinks(plan)


def _with_own_sinks(plan: Path) -> None:
    """Sinks that were made tables of ``print`` here, as the cases have them."""
    data = json.loads(plan.read_text())
    for node in data["nodes"]:
        options = node.get("dynamicTableSink", {}).get("table", {}).get("resolvedTable", {}).get("options", {})
        if "changelog-mode" in options:
            options |= {"connector": "labsink", "mode": options.pop("changelog-mode")}
    plan.write_text(json.dumps(data))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts.flink_executes", description=__doc__)
    parser.add_argument("--oracle", type=Path, required=True)
    parser.add_argument("cases", nargs="*", default=IN_SCOPE, metavar="CASE")
    args = parser.parse_args(argv)
    module = oracle_module(args.oracle)
    oracle = module.Oracle()
    differ = 0
    try:
        with tempfile.TemporaryDirectory(prefix="stateplan-flink-") as work:
            for name in args.cases:
                case = Case(CASES / name)
                plan, out = Path(work) / f"{name}.json", Path(work) / name
                compiled(case, plan)
                script = case.folder / "script.sql"
                good, message = oracle.cmd("EXEC", str(plan), str(script), str(out))
                rows: list[str] = []
                if good:
                    rows = case.folded((out / "changelog.txt").read_text().splitlines())
                    good, message = rows == case.materialized, f"other rows: {rows}"
                differ += not good
                print(f"{name:32} {f'{len(rows)} rows, as Flink' if good else message}", flush=True)
    finally:
        oracle.close()
    print(f"{len(args.cases) - differ} of {len(args.cases)} plans gave Flink's rows in Flink")
    return int(differ > 0)


if __name__ == "__main__":
    sys.exit(main())
