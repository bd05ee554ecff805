"""FLIP-292's acceptance: every operator obeys its own TTL, given by an edit of the plan and by a hint, in a chain of
operators with one input and for the two sides of one join; on the replay clock, and once in real time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import restore
from tests.e2e.ttl_scenarios import CHAIN, COUNTS, JOIN, LATER, LONG, SHORT, Rows, Scenario, wait_until
from tests.support.local import printed

TABLES = ("a", "b", "l", "r")
DDL = "CREATE TABLE {name} (k INT, g INT, pt AS PROCTIME()) WITH ({options})"


def hints(scenario: Scenario, ttls: tuple[str, str]) -> tuple[str, str]:
    if scenario is JOIN:
        return f"/*+ STATE_TTL('l' = '{ttls[0]}', 'r' = '{ttls[1]}') */", ""
    return f"/*+ STATE_TTL('b' = '{ttls[0]}') */", f"/*+ STATE_TTL('s' = '{ttls[1]}') */"


def edit(document: PlanDocument, scenario: Scenario, ttls: tuple[str, str]) -> PlanDocument:
    for (title, number, slot), ttl in zip(scenario.states, ttls, strict=True):
        nodes = [n for n in document.graph.nodes if n.title == title]
        document = document.set_ttl(nodes[number].id, slot, ttl)
    return document


def replayed(scenario: Scenario, folder: Path, ttls: tuple[str, str], how: str) -> list[str]:
    """All changes, the first rows' before those of the later rows."""
    session = TableEnvironment.create()
    for name in TABLES:
        path = folder / f"{name}.json"
        lines = [
            {**row, "@at": at}
            for at, rows in ((1000, scenario.first), (1000 + LATER, scenario.later))
            for row in rows.get(name, [])
        ]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        session.execute_sql(DDL.format(name=name, options=f"'connector'='replay', 'format'='json', 'path'='{path}'"))
    session.execute_sql("CREATE TABLE snk (x BIGINT, y BIGINT) WITH ('connector'='print')")
    hint = hints(scenario, ttls) if how == "hint" else ("", "")
    text = session.compile_plan_sql("INSERT INTO snk " + scenario.query.format(hint=hint)).as_json_string()
    document = PlanDocument.parse(text)
    if how == "edit":
        document = edit(document, scenario, ttls)
    return printed(translate(restore(document, session.catalog, {}).graph, {}, key_groups=2))


@pytest.mark.parametrize(
    ("scenario", "how"),
    [(CHAIN, "edit"), (COUNTS, "edit"), (COUNTS, "hint"), (JOIN, "edit"), (JOIN, "hint")],
    ids=["chain-edit", "counts-edit", "counts-hint", "join-edit", "join-hint"],
)
def test_on_the_replay_clock(scenario: Scenario, how: str, tmp_path: Path) -> None:
    for ttls, expected in (((SHORT, LONG), scenario.short_long), ((LONG, SHORT), scenario.long_short)):
        folder = tmp_path / ttls[0].replace(" ", "")
        folder.mkdir()
        changes = replayed(scenario, folder, ttls, how)
        assert changes == [*scenario.before, *expected]


@pytest.mark.spark
def test_in_real_time(spark: object, tmp_path: Path) -> None:
    """One job over watched folders: the chain and one join by an edit of the plan, the counts and one join by hint."""
    session = TableEnvironment.create(
        {"pipeline.max-parallelism": "1", "execution.checkpointing.dir": str(tmp_path / "checkpoint")}
    )
    for name in TABLES:
        (tmp_path / name).mkdir()
        options = f"'connector'='filesystem', 'format'='json', 'path'='{tmp_path / name}'"
        session.execute_sql(DDL.format(name=name, options=f"{options}, 'source.monitor-interval'='200 ms'"))
    inserts = {
        "chain": CHAIN.query,
        "counts": COUNTS.query.format(hint=hints(COUNTS, (LONG, SHORT))),
        "hinted": JOIN.query.format(hint=hints(JOIN, (SHORT, LONG))),
        "edited": JOIN.query.format(hint=("", "")),
    }
    scenarios = {
        "chain": (CHAIN, CHAIN.short_long),
        "counts": (COUNTS, COUNTS.long_short),
        "hinted": (JOIN, JOIN.short_long),
        "edited": (JOIN, JOIN.long_short),
    }
    for name in inserts:
        session.execute_sql(
            f"CREATE TABLE {name} (x BIGINT, y BIGINT) WITH ('connector'='filesystem', 'format'='op-json', "
            f"'op-json.mode'='retract', 'path'='{tmp_path / name}')"
        )
    body = " ".join(f"INSERT INTO {name} {query};" for name, query in inserts.items())
    compiled = session.compile_plan_sql(f"EXECUTE STATEMENT SET BEGIN {body} END")
    document = edit(PlanDocument.parse(compiled.as_json_string()), CHAIN, (SHORT, LONG))
    _, unhinted = (n for n in document.graph.nodes if n.title == "join")
    for slot, ttl in enumerate((LONG, SHORT)):
        document = document.set_ttl(unhinted.id, slot, ttl)
    document.write(str(tmp_path / "plan.json"))
    result = session.execute_plan(tmp_path / "plan.json")
    assert result.job is not None
    try:
        arrive(tmp_path, "first", CHAIN.first, COUNTS.first, JOIN.first)
        wait_until(result.job, lambda: result.job is not None and result.job.progress.rows_in >= 6)
        wait_until(result.job, lambda: all(changes(tmp_path / n) == s.before for n, (s, _) in scenarios.items()))
        time.sleep(LATER / 1000)
        arrive(tmp_path, "later", CHAIN.later, COUNTS.later, JOIN.later)
        wait_until(result.job, lambda: result.job is not None and result.job.progress.rows_in >= 11)
        for name, (scenario, later) in scenarios.items():
            out, n = tmp_path / name, len(scenario.before) + len(later)
            wait_until(result.job, lambda out=out, n=n: len(changes(out)) >= n)  # type: ignore[misc]
            assert changes(out) == [*scenario.before, *later], name
    finally:
        result.job.stop()


def arrive(folder: Path, file: str, *rows: Rows) -> None:
    """Files that appear whole, one in each table's folder that has rows."""
    for name, lines in ((n, lines) for tables in rows for n, lines in tables.items()):
        made = folder / f".{name}-{file}"
        made.write_text("".join(json.dumps(row) + "\n" for row in lines))
        made.rename(folder / name / f"{file}.json")


def changes(folder: Path) -> list[str]:
    """The changes in a folder of op-json files, those of one micro-batch in the order they were made."""
    out = []
    for path in sorted(folder.glob("*.json")):
        for line in path.read_text().splitlines():
            row = json.loads(line)
            out.append(f"{row.pop('_op')}[{', '.join(str(v) for v in row.values())}]")
    return out
