"""Plans of the golden cases, compiled here, executed by Flink: the materialised results must be Flink's own.

    python -m scripts.flink_executes --oracle FOLDER [CASE ...]

FOLDER is a copy of ``shared/flink/oracle`` after its ``setup.sh``. Exit code 1 when a result differs.
"""

from __future__ import annotations

import importlib.util
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from benchmarks.harness import run
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.support.cases import IN_SCOPE, Case

CASES = Path(__file__).parents[2] / "shared" / "flink" / "cases"


T = TypeVar("T")


@contextmanager
def oracle_in(folder: Path) -> Iterator[Any]:
    """The oracle in ``folder``: one Flink for any number of scripts."""
    spec = importlib.util.spec_from_file_location("oracle", folder / "oracle.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    oracle = module.Oracle()
    try:
        yield oracle
    finally:
        oracle.close()


def in_flink(folder: Path, things: Sequence[T], label: Callable[[T], str], test: Callable[[T, Any, Path], str]) -> int:
    """Puts each of ``things`` to the ``test`` with the oracle in ``folder`` and a folder of its own, and prints what it
    says; 1 when one said something."""
    wrong = 0
    with oracle_in(folder) as oracle:
        for thing in things:
            with tempfile.TemporaryDirectory(prefix="stateplan-flink-") as work:
                said = test(thing, oracle, Path(work))
            wrong += bool(said)
            print(f"{label(thing):60} {said or 'as Flink'}", flush=True)
    print(f"{len(things) - wrong} of {len(things)} plans gave the expected rows in Flink")
    return int(wrong > 0)


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


def result(name: str, oracle: Any, folder: Path) -> str:
    """What Flink made of the plan of a case, in words; empty when it gave the expected rows."""
    case = Case(CASES / name)
    plan, out = folder / "plan.json", folder / "out"
    compiled(case, plan)
    good, message = oracle.cmd("EXEC", str(plan), str(case.folder / "script.sql"), str(out))
    if not good:
        return str(message)
    rows = case.folded((out / "changelog.txt").read_text().splitlines())
    return "" if rows == case.materialized else f"other rows: {rows}"


def main(oracle: Annotated[Path, typer.Option()], cases: Annotated[list[str] | None, typer.Argument()] = None) -> int:
    return in_flink(oracle, cases or list(IN_SCOPE), str, result)


if __name__ == "__main__":
    run(main, __doc__)
