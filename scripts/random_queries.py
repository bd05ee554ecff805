"""Random queries next to Flink: the same plan, the same rows.

    python -m scripts.random_queries --oracle FOLDER [--seed 1] [--count 200] [--rows] [--keep DIR]

FOLDER is a copy of ``shared/flink/oracle`` after its ``setup.sh``. Every seed is one query of
``tests/support/random_queries.py``. Its plans are compared node by node: types, fields, states, descriptions. With
``--rows``, both engines run it as well, this one in two splits into micro-batches, and what their sinks hold in the end
is compared. ``--keep`` leaves the script, the input and both plans of every query that differs.

Exit code 1 when a query differs.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.harness import run
from scripts.flink_executes import oracle_in
from stateplan.execnodes.errors import StateplanError
from stateplan.execnodes.runtime.translate import translate
from stateplan.planner.session.environment import TableEnvironment
from stateplan.planner.session.script import read_script
from tests.planner_query.conftest import compiled, plain
from tests.support.cases import Case, replay_script
from tests.support.golden import tree_of
from tests.support.local import fold, printed
from tests.support.random_queries import random_query

SPLITS = ((1, 2), (5, 3))
"""Rows per micro-batch, and key groups."""

_STATELESS_IN_FLINK = ("stream-exec-interval-join_1",)
"""Operators whose state Flink gives no place in the plan, unless a hint names it."""


def plan_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """What the first difference of two plans is, in words; empty where there is none."""
    here, there = ([node["type"] for node in plan["nodes"]] for plan in (ours, theirs))
    if here != there or ours["edges"] != theirs["edges"]:
        return f"operators{_first_lines(ours, theirs)}"
    for one, other in zip(ours["nodes"], theirs["nodes"], strict=True):
        left = {"description", *(["state"] if one["type"] in _STATELESS_IN_FLINK else [])}
        for key in dict.fromkeys([*one, *other]):
            if key not in left and one.get(key) != other.get(key):
                return f"{key} of {one['type']}{_first_lines(ours, theirs)}"
    return f"descriptions{_first_lines(ours, theirs)}" if tree_of(ours) != tree_of(theirs) else ""


def _first_lines(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Where the plans, as people read them, begin to differ."""
    pairs = zip(tree_of(ours).splitlines(), tree_of(theirs).splitlines(), strict=False)
    here, there = next(((o, t) for o, t in pairs if o != t), ("", ""))
    return f"\n    here  {here.strip()}\n    Flink {there.strip()}"


def our_rows(case: Case, folder: Path, step: int, key_groups: int) -> list[str]:
    """What the sink holds in the end, with ``step`` rows in a micro-batch."""
    folder.mkdir()
    environment = TableEnvironment.create({"table.local-time-zone": "UTC"})
    *before, last = read_script(replay_script(case, folder, step))
    for statement in before:
        environment.execute_statement(statement)
    graph = environment.compile_plan_sql(last.text).document.graph
    options = dict(re.findall(r"SET '([^']+)' = '([^']*)'", case.text("script.sql")))
    return fold(printed(translate(graph, options, key_groups)))


def difference(case: Case, oracle: Any, rows: bool) -> str:
    """What differs between Flink and this project for the script of a case; empty where nothing does."""
    folder = case.folder
    good, message = oracle.cmd("COMPILE", str(folder / "script.sql"), str(folder))
    try:
        ours = plain(compiled(case.script))
    except StateplanError as error:
        return "" if not good else f"only here refused\n    {error.code} {error}".rstrip()
    if not good:
        return f"only Flink refuses\n    {str(message).splitlines()[-1].strip()}"
    (folder / "ours.json").write_text(json.dumps(ours))
    found = plan_difference(ours, json.loads(case.plan))
    return (_row_difference(case, oracle) or found) if rows else found


def _row_difference(case: Case, oracle: Any) -> str:
    folder = case.folder
    good, message = oracle.cmd("RUNONLY", str(folder / "script.sql"), str(folder))
    if not good:
        return f"Flink fails\n    {str(message).splitlines()[-1].strip()}"
    try:
        wanted = fold((folder / "changelog.txt").read_text().splitlines())
    except AssertionError as error:
        return f"Flink deletes rows that were not there\n    {error}"
    for step, key_groups in SPLITS:
        try:
            got = our_rows(case, folder / f"replay{step}", step, key_groups)
        except (StateplanError, AssertionError) as error:
            return f"fails here ({step} rows in a micro-batch)\n    {error}"
        if got != wanted:
            more, fewer = (sorted((Counter(x) - Counter(y)).elements()) for x, y in ((got, wanted), (wanted, got)))
            return f"rows ({step} in a micro-batch)\n    only here  {more[:5]}\n    only Flink {fewer[:5]}"
    return ""


@contextmanager
def _folder(keep: Path | None, seed: int) -> Iterator[Path]:
    if keep is None:
        with tempfile.TemporaryDirectory(prefix="stateplan-query-") as name:
            yield Path(name)
    else:
        shutil.rmtree(keep / str(seed), ignore_errors=True)
        yield keep / str(seed)


def main(
    oracle: Annotated[Path, typer.Option(help="folder of the oracle")],
    seed: Annotated[int, typer.Option(help="of the first query")] = 1,
    count: Annotated[int, typer.Option(help="number of queries")] = 200,
    rows: Annotated[bool, typer.Option("--rows", help="run the queries, and compare their rows")] = False,
    keep: Annotated[Path | None, typer.Option(help="folder for the queries that differ")] = None,
) -> int:
    kinds: Counter[str] = Counter()
    with oracle_in(oracle) as peer:
        for number in range(seed, seed + count):
            with _folder(keep, number) as folder:
                random_query(number, rows=rows).write(folder)
                said = difference(Case(folder.resolve()), peer, rows)
                if keep is not None and not said:
                    shutil.rmtree(folder)
            kinds[said.partition("\n")[0] or "as Flink"] += 1
            if said:
                print(f"seed {number}: {said}", flush=True)
    for kind, times in kinds.most_common():
        print(f"{times:6} {kind}")
    return int(kinds.total() > kinds["as Flink"])


if __name__ == "__main__":
    run(main, __doc__)
