"""Random queries next to Flink: the same plan, the same rows.

    python -m scripts.random_queries --answers DIR [--oracle FOLDER] [--seed 1] [--count 200] [--rows]

Every seed is one query of ``tests/support/random_queries``. Its plans are compared node by node: types, fields,
states, descriptions. With ``--rows``, both engines run it as well, this one in two splits into micro-batches, and what
their sinks hold in the end is compared. Where rows come late, only micro-batches of one row have one result.

``--answers`` keeps what Flink said: a folder for each seed with the script, the input, Flink's plan and rows, and the
plan of this project. FOLDER is a copy of ``shared/flink/oracle`` after its ``setup.sh``. It is asked only for what is
not there yet, and ``--ask`` does no more than that: so Flink is needed once, and this project can be changed and
compared again. Without ``--oracle``, seeds without an answer are left out.

The order of the upsert keys of a join is not compared: it is another one each time that Flink compiles.

``--keep FILE`` writes the answers that are equal in rows and plan to a file such as the one that the test suite
compares with (``tests/support/random_queries/kept.py``).

Plans that differ by an accident of Flink's planner have names in ``scripts/plan_differences.py``.

A query that is planned otherwise with ``table.optimizer.flink-faults`` = ``as-flink`` differs by a known fault of
Flink that is corrected here. Plans are those with this option. Other faults have names in ``scripts/flink_faults.py``.

Exit code 1 when a query differs otherwise.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from benchmarks.harness import run
from scripts.flink_answers import TOGETHER, answered, ask
from scripts.flink_executes import oracle_in
from scripts.flink_faults import FAULTS, Answer, fault_of
from scripts.plan_differences import ACCIDENTS, accident_of
from stateplan.common.errors import StateplanError
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import read_script
from tests.planner.conftest import compiled, plain
from tests.support.cases import Case, replay_script
from tests.support.golden import tree_of
from tests.support.local import printed
from tests.support.random_queries import random_query
from tests.support.random_queries.kept import KeptAnswer, keep

BOTH_REFUSE = "refused by both"

_REFUSALS = {
    "SQL112": "Union fields with time attributes",
    "SQL119": "is a time attribute type",
    "SQL140": "doesn't support consuming",
    "SQL141": "has an upsert key that differs",
    "SQL142": "requires the changelog sources to define a PRIMARY KEY",
    "SQL164": r"(bounded OVER window|The window can only be ordered by|must be computed on the same window"
    r"|requires the timecol is a time attribute type)",
}
"""Code of an error here -> what Flink says for the same reason."""

CORRECTED = "a fault of Flink, corrected here"

SPLITS = ((1, 2), (5, 3))
"""Rows per micro-batch, and key groups."""

_STATELESS_IN_FLINK = ("stream-exec-interval-join_1",)
"""Operators whose state Flink gives no place in the plan, unless a hint names it."""

_HINTED_HERE = ("stream-exec-deduplicate_1", "stream-exec-rank_1", "stream-exec-sort-limit_1", "stream-exec-limit_1")
"""Operators whose state has the TTL of a STATE_TTL hint here, and not in Flink."""


def plan_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any], hinted: bool = False) -> str:
    """What the first difference of two plans is, in words; empty where there is none.

    Args:
        hinted: whether the query has a hint of STATE_TTL.
    """
    here, there = ([node["type"] for node in plan["nodes"]] for plan in (ours, theirs))
    if here != there or ours["edges"] != theirs["edges"]:
        return f"operators{_first_lines(ours, theirs)}"
    for one, other in zip(ours["nodes"], theirs["nodes"], strict=True):
        is_own_state = one["type"] in _STATELESS_IN_FLINK or (hinted and one["type"] in _HINTED_HERE)
        left = {"description", *(["state"] if is_own_state else [])}
        for key in dict.fromkeys([*one, *other]):
            if key not in left and _in_order(key, one.get(key)) != _in_order(key, other.get(key)):
                return f"{key} of {one['type']}{_first_lines(ours, theirs)}"
    return f"descriptions{_first_lines(ours, theirs)}" if tree_of(ours) != tree_of(theirs) else ""


def _in_order(key: str, value: Any) -> Any:
    return sorted(value) if key in ("leftUpsertKeys", "rightUpsertKeys") and value else value


def _first_lines(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """Where the plans, as people read them, begin to differ."""
    pairs = zip(tree_of(ours).splitlines(), tree_of(theirs).splitlines(), strict=False)
    here, there = next(((o, t) for o, t in pairs if o != t), ("", ""))
    return f"\n    here  {here.strip()}\n    Flink {there.strip()}"


def our_rows(case: Case, folder: Path, step: int, key_groups: int) -> list[str]:
    """What the sink holds in the end, with ``step`` rows in a micro-batch."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    environment = TableEnvironment.create({"table.local-time-zone": "UTC"})
    *before, last = read_script(replay_script(case, folder, step))
    for statement in before:
        environment.execute_statement(statement)
    graph = environment.compile_plan_sql(last.text).document.graph
    options = dict(re.findall(r"SET '([^']+)' = '([^']*)'", case.text("script.sql")))
    return case.folded(printed(translate(graph, options, key_groups)))


@dataclass(frozen=True)
class AsFlink(Case):
    """A case with the faults of Flink."""

    def text(self, name: str) -> str:
        text = super().text(name)
        return f"SET 'table.optimizer.flink-faults' = 'as-flink';\n{text}" if name == "script.sql" else text


@dataclass(frozen=True)
class Difference:
    """What differs between Flink's answer and this project, in words; and the rows that only one of them left."""

    said: str = ""
    more: Sequence[str] = ()
    fewer: Sequence[str] = ()

    def __bool__(self) -> bool:
        return self.said not in ("", BOTH_REFUSE)


def difference(case: Case, rows: bool, late: bool) -> Difference:
    """What differs in rows, or in being refused."""
    refused = _said(case, "refused.txt")
    try:
        compiled(case.script)
    except StateplanError as error:
        theirs = refused or _said(case, "failed.txt")
        if not theirs:
            return Difference(f"only here refused\n    {error.code} {error}".rstrip())
        same = error.code in _REFUSALS and re.search(_REFUSALS[error.code], theirs)
        return Difference(BOTH_REFUSE if same else f"refused for other reasons\n    {error.code}\n    {_cause(theirs)}")
    if refused:
        return Difference(f"only Flink refuses\n    {_cause(refused)}")
    return _row_difference(case, late) if rows else Difference()


def corrected(case: Case, rows: bool, late: bool) -> bool:
    """Whether a difference comes of a fault that is corrected here. Without the correction, rows are Flink's; or the
    plan is Flink's and another one than with it, where the rows of the fault depend on the order of arrival."""
    as_flink = AsFlink(case.folder)
    if not difference(as_flink, rows, late):
        return True
    if difference_of_plans(case) != "":
        return False
    try:
        return bool(plain(compiled(case.script)) != plain(compiled(as_flink.script)))
    except StateplanError:
        return True  # only the corrected plan is refused


def difference_of_plans(case: Case) -> str | None:
    """What differs between the plans of Flink and of this project, None where one of the two has none."""
    if _said(case, "refused.txt"):
        return None
    try:
        ours = plain(compiled(AsFlink(case.folder).script))
    except StateplanError:
        return None
    (case.folder / "ours.json").write_text(json.dumps(ours))
    return plan_difference(ours, json.loads(case.plan), "STATE_TTL" in case.text("script.sql"))


def _said(case: Case, name: str) -> str:
    path = case.folder / name
    return path.read_text() if path.exists() else ""


def _cause(message: str) -> str:
    return message.splitlines()[-1].strip()[:300]


def _row_difference(case: Case, late: bool) -> Difference:
    folder = case.folder
    if failed := _said(case, "failed.txt"):
        return Difference(f"only Flink fails\n    {_cause(failed)}")
    try:
        wanted = case.materialized
    except AssertionError as error:
        return Difference(f"Flink deletes rows that were not there\n    {error}")
    for step, key_groups in SPLITS[:1] if late else SPLITS:
        try:
            got = our_rows(case, folder / f"replay{step}", step, key_groups)
        except (StateplanError, AssertionError) as error:
            return Difference(f"fails here ({step} rows in a micro-batch)\n    {error}")
        if got != wanted:
            more, fewer = (sorted((Counter(x) - Counter(y)).elements()) for x, y in ((got, wanted), (wanted, got)))
            said = f"rows ({step} in a micro-batch)\n    only here  {more[:5]}\n    only Flink {fewer[:5]}"
            return Difference(said, more, fewer)
    return Difference()


def main(
    answers: Annotated[Path, typer.Option(help="folder that keeps Flink's answers")],
    oracle: Annotated[Path | None, typer.Option(help="folder of the oracle")] = None,
    seed: Annotated[int, typer.Option(help="of the first query")] = 1,
    count: Annotated[int, typer.Option(help="number of queries")] = 200,
    rows: Annotated[bool, typer.Option("--rows", help="run the queries, and compare their rows")] = False,
    ask_only: Annotated[bool, typer.Option("--ask", help="only have Flink answer")] = False,
    keep_in: Annotated[Path | None, typer.Option("--keep", help="file for equal answers")] = None,
) -> int:
    found: Counter[str] = Counter()
    plans: Counter[str] = Counter()
    kept: dict[int, KeptAnswer] = {}
    queries = {answers.resolve() / str(n): random_query(n, rows=rows) for n in range(seed, seed + count)}
    if oracle is not None:
        with oracle_in(oracle) as peer:
            for folder, query in queries.items():
                if not query.written_in(folder):
                    shutil.rmtree(folder, ignore_errors=True)
                    query.write(folder)
            folders = list(queries)
            for at in range(0, count, TOGETHER):
                ask(peer, folders[at : at + TOGETHER], rows)
    for folder, query in queries.items():
        number = folder.name
        if not ask_only and query.written_in(folder) and answered(folder, "plan.json", "refused.txt"):
            case = Case(folder)
            differs, plan = difference(case, rows, query.late), difference_of_plans(case)
            said = differs.said
            if differs:
                print(f"seed {number}: {said}", flush=True)
                answer = Answer(folder, differs.more, differs.fewer)
                said = CORRECTED if corrected(case, rows, query.late) else fault_of(answer) or said
            if plan:
                print(f"seed {number}: plan: {plan}", flush=True)
            found[said.partition("\n")[0] or "as Flink"] += 1
            if plan is not None:
                accident = accident_of(folder) if plan else ""
                plans[accident or plan.partition("\n")[0] or "as Flink"] += 1
            if rows and said == plan == "" and not query.late:
                text = json.dumps(json.loads(case.plan)).replace(str(folder), "${DIR}")
                kept[int(number)] = KeptAnswer(query.digest, text, case.materialized)
    if keep_in is not None:
        keep(kept, keep_in)
    for title, kinds in (("rows" if rows else "refusals", found), ("plans", plans)):
        print(f"{title}: {kinds.total()}")
        for kind, times in kinds.most_common():
            print(f"{times:6} {kind}")
    nameless = found.total() - sum(found[kind] for kind in ("as Flink", BOTH_REFUSE, CORRECTED, *FAULTS))
    return int(nameless > 0 or plans.total() > sum(plans[kind] for kind in ("as Flink", *ACCIDENTS, *FAULTS)))


if __name__ == "__main__":
    run(main, __doc__)
