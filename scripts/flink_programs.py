"""Runs Flink's own test programs in four ways and writes the page ``flink-programs.md``.

    python -m scripts.flink_programs [REFERENCE] [--only TEXT]

runs every program of the operators that this project has (see ``tests/e2e/programs.py``). REFERENCE is the folder of
the reference material, by default ``../shared/flink``. With ``--only``, it runs the programs whose names have TEXT, and
prints the table without writing the page. Exit code 1 when the list of failing programs is wrong about one.
"""

from __future__ import annotations

import sys
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.harness import run
from scripts.pages import page_path
from stateplan.common.errors import StateplanError
from tests.e2e.programs import WAYS, Program, failing, programs

ROOT = Path(__file__).resolve().parent.parent
REPORT = page_path("flink-programs")

HEAD = """# Flink's test programs

Flink tests its planner with programs. A program has tables with rows, SQL, the plan that an earlier release compiled,
and the rows that are expected before and after a restart from a savepoint. stateplan runs each program whose operators
it supports in four ways:

- compiled from its SQL;
- from the plan that Flink froze;
- from that plan, stopped after the first rows and restored for the others;
- the same, with the plan [migrated](plan-migration.md) before the restore.

Rows are compared as in Flink: the final rows of a table with a primary key, and the multiset of rows of other tables.
`python -m scripts.flink_programs` writes this page, and `tests/e2e/test_flink_programs.py` checks it.

"""


def passes(program: Program, way: str) -> bool:
    """Whether the program gives Flink's rows."""
    expected = {s["name"]: program.expected(s) for s in program.spec["sinks"]}
    with tempfile.TemporaryDirectory() as folder:
        try:
            return WAYS[way](program, Path(folder) / "run") == expected
        except StateplanError:
            return False


def main(reference: Annotated[Path, typer.Argument()] = ROOT.parent / "shared" / "flink", only: str = "") -> int:
    """Writes the page; 1 when a program does not do what the list of failing ones says."""
    if not (reference / "index.json").is_file():
        raise typer.BadParameter(f"no reference material in {reference}: it has no index.json")
    counts: dict[str, dict[str, list[int]]] = defaultdict(lambda: {way: [0, 0] for way in WAYS})
    listed, reasons, wrong = failing(), [], []
    for program in programs(reference):
        if only not in program.label:
            continue
        for way in program.ways:
            passed = passes(program, way)
            counts[program.program_class][way][0] += passed
            counts[program.program_class][way][1] += 1
            reason = listed.get(f"{program.label}/{way}")
            if passed == (reason is not None):
                wrong.append(f"{program.label}/{way}")
            if not passed:
                reasons.append(f"| {program.program_class} | {program.name} | {way} | {reason} |")
    lines = ["| class | from SQL | from Flink's plan | restored | migrated |", "|---|--:|--:|--:|--:|"]
    totals = {way: [sum(c[way][i] for c in counts.values()) for i in (0, 1)] for way in WAYS}
    for name, ways in [*counts.items(), ("**all**", totals)]:
        lines.append(f"| {name} | " + " | ".join(f"{ways[w][0]} of {ways[w][1]}" for w in WAYS) + " |")
    if reasons:
        lines += ["", "Failing programs:", "", "| class | program | way | reason |", "|---|---|---|---|", *reasons]
    if not only:
        REPORT.write_text(HEAD + "\n".join(lines) + "\n")
    print("\n".join(lines))
    for label in wrong:
        print(f"the list of failing programs is wrong about {label}", file=sys.stderr)
    return int(bool(wrong))


if __name__ == "__main__":
    run(main, __doc__)
