"""Plans that older releases of Flink froze, migrated here, executed by Flink 2.3: the rows must be the expected ones.

    python -m scripts.flink_migrates --oracle FOLDER [--each N]

FOLDER is a copy of ``shared/flink/oracle`` after its ``setup.sh``. Of each class of Flink's test programs N are run,
over files in place of the tests' connector; those that need functions, lookups, metadata or partitions are left out. A
job takes some seconds. Exit code 1 when a result differs.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.harness import run
from scripts.flink_executes import in_flink
from stateplan.plans.document import PlanDocument
from stateplan.plans.migrate import migrate
from tests.e2e.programs import MODES, Program, connectors_of_its_own, ddl, failing, programs

SHARED = Path(__file__).parents[2] / "shared" / "flink"
_PHASES = ("before_restore", "after_restore")


def chosen(each: int) -> list[Program]:
    """``each`` programs of each class that files can stand in for."""
    found: dict[str, list[Program]] = defaultdict(list)
    listed = failing()
    for program in programs(SHARED):
        if program.plan is None or program.spec["functions"] or program.program_class == "LookupJoin":
            continue
        needs = program.plan.read_text() + json.dumps(program.spec["sources"]) + json.dumps(program.spec["sinks"])
        if f"{program.label}/plan" not in listed and not re.search("METADATA|WatermarkPushDown|Partition", needs):
            found[program.program_class].append(program)
    return [program for same in found.values() for program in same[:each]]


@connectors_of_its_own()
def written(program: Program, folder: Path) -> Path:
    """Writes the migrated plan, the rows of the sources, and a script with the tables; gives the plan's path."""
    script = [f"SET '{key}' = '{value}';" for key, value in program.spec["config"].items()]
    for phase in _PHASES:
        program.session(folder / phase, phase, metadata=True)
    for source in program.spec["sources"]:
        name, mode = source["name"], MODES[(source["options"] or {}).get("changelog-mode")]
        phases = _PHASES[:1] if program.restores_nothing else _PHASES
        lines = [line for phase in phases for line in (folder / phase / f"{name}.json").read_text().splitlines()]
        rows = [{key: value for key, value in json.loads(line).items() if key != "@at"} for line in lines]
        (folder / f"{name}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        path = str(folder / f"{name}.json")
        options = {"connector": "filesystem", "path": path, "format": "op-json", "op-json.mode": mode}
        script.append(ddl(source, options, metadata=True) + ";")
    for sink in program.spec["sinks"]:
        mode = "upsert" if sink["primary_key"] else "retract"
        script.append(ddl(sink, {"connector": "labsink", "mode": mode}, metadata=True) + ";")
    (folder / "script.sql").write_text("\n".join(script))
    migrate(PlanDocument.load(str(program.plan))).document.write(str(folder / "plan.json"))
    return folder / "plan.json"


def result(program: Program, oracle: Any, folder: Path) -> str:
    """What Flink made of the migrated plan, in words; empty when it gave the expected rows."""
    plan = written(program, folder)
    good, message = oracle.cmd("EXEC", str(plan), str(folder / "script.sql"), str(folder / "out"))
    if not good:
        return str(message).rpartition("caused by")[2].strip().partition("\n")[0]
    lines = (folder / "out" / "changelog.txt").read_text().splitlines()
    for sink in program.spec["sinks"]:
        own = [ln for ln in lines if len(program.spec["sinks"]) == 1 or ln.partition("> ")[0].endswith(sink["name"])]
        found = program.materialized(sink, [re.sub(r"^.*?> ", "", line) for line in own])
        if sorted(found) != sorted(program.expected(sink)):
            return f"other rows: {found}"
    return ""


def main(oracle: Annotated[Path, typer.Option()], each: int = 1) -> int:
    return in_flink(oracle, chosen(each), lambda program: program.label, result)


if __name__ == "__main__":
    run(main, __doc__)
