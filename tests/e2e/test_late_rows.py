"""Rows that operators drop because they are late go to the table that ``late-rows.table`` names."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.execnodes.graph import ExecGraph
from stateplan.execnodes.side_outputs import late_table
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import restore
from stateplan.session.script import Inserts, read_script
from tests.e2e.file_arrivals import forget_the_last_commit
from tests.e2e.late_rows_job import QUERIES, Restarted
from tests.support.local import printed

ROOT = Path(__file__).resolve().parents[2]
E = """CREATE TABLE e (id INT, k STRING, rt TIMESTAMP(3), WATERMARK FOR rt AS rt)
    WITH ('connector' = 'replay', 'path' = '{folder}/e.json', 'format' = 'json');"""
F = E.replace("TABLE e", "TABLE f").replace("e.json", "f.json")
SNK = "CREATE TABLE snk ({}) WITH ('connector' = 'print');"
LATE = """CREATE TABLE late (operator STRING, input INT, row_time TIMESTAMP_LTZ(3), watermark_time TIMESTAMP_LTZ(3),
    row_kind STRING, row_json STRING) WITH ('connector' = 'print', 'print-identifier' = 'late');
    SET 'late-rows.table' = 'late';"""


NO_TIME = ("window-join", "window-rank")
"""Operators whose input has no time attribute any more here, so that no time of the row is known."""


def write(path: Path, *rows: tuple[int, int, int]) -> None:
    """Rows of (instant in s, id, second of ``rt``)."""
    with path.open("a") as out:
        for at, number, second in rows:
            stamp = f"2026-01-01 00:00:{second:02d}"
            out.write(json.dumps({"@at": 1000 * at, "id": number, "k": "x", "rt": stamp}) + "\n")


def compiled(folder: Path, script: str) -> tuple[TableEnvironment, PlanDocument]:
    environment = TableEnvironment.create({"table.local-time-zone": "UTC"})
    *before, last = read_script(script.replace("{folder}", str(folder)))
    for statement in before:
        environment.execute_statement(statement)
    return environment, environment.session.compiler.document(Inserts.of(last.node, last.source))


def lines(graph: ExecGraph, key_groups: int = 2, **options: str) -> list[str]:
    return printed(translate(graph, {"table.local-time-zone": "UTC", **options}, key_groups))


def late_of(printed_: list[str]) -> list[str]:
    return [line.removeprefix("late> ") for line in printed_ if line.startswith("late> ")]


def inputs(folder: Path) -> None:
    """Of e, the rows 4 and 5 come too late for anything: of f the rows come first, and bring event time on."""
    write(folder / "f.json", (1, 1, 10), (3, 2, 40), (6, 3, 41))
    write(folder / "e.json", (2, 1, 12), (3, 2, 40), (4, 3, 41), (5, 4, 13), (6, 5, 14), (6, 6, 42))


@pytest.mark.parametrize("name", QUERIES)
def test_each_operator_hands_over_what_it_drops(name: str, tmp_path: Path) -> None:
    inputs(tmp_path)
    columns, query = QUERIES[name]
    _, document = compiled(tmp_path, LATE + E + F + SNK.format(columns) + f"INSERT INTO snk {query};")
    got = lines(document.graph)
    late = [line.split(", ", 5) for line in late_of(got)]
    assert Counter(json.loads(parts[5].rstrip("]"))["id"] for parts in late) == {4: 1, 5: 1}
    operator = name.split()[0]
    for parts, second in zip(sorted(late, key=lambda p: p[2]), (13, 14), strict=True):
        assert parts[0].startswith(f"+I[{operator}[") and parts[1] == "0" and parts[4] == "+I"
        assert parts[2] == ("null" if operator in NO_TIME else f"2026-01-01T00:00:{second}Z")
        assert parts[3] in ("2026-01-01T00:00:40Z", "2026-01-01T00:00:41Z")
    others = [line for line in got if not line.startswith("late")]
    _, without = compiled(tmp_path, E + F + SNK.format(columns) + f"INSERT INTO snk {query};")
    assert sorted(others) == sorted(lines(without.graph)), "the results are the same without the table"


def late_table_of(name: str) -> str:
    created = LATE.partition("SET")[0]
    return created.replace("TABLE late", f"TABLE {name}").replace("= 'late'", f"= '{name}'")


@pytest.mark.parametrize("name", QUERIES)
def test_a_hint_does_for_a_select_what_the_option_does_for_all(name: str, tmp_path: Path) -> None:
    inputs(tmp_path)
    columns, query = QUERIES[name]
    tables = late_table_of("late") + E + F + SNK.format(columns)
    # The hint stands in the innermost SELECT that has the operator.
    at = query.rindex("SELECT *,") if "SELECT *," in query else 0
    hinted = query[:at] + query[at:].replace("SELECT", "SELECT /*+ LATE_ROWS('late') */", 1)
    _, document = compiled(tmp_path, f"{tables} INSERT INTO snk {hinted};")
    _, option = compiled(tmp_path, f"{LATE}{E}{F}{SNK.format(columns)} INSERT INTO snk {query};")
    assert Counter(lines(document.graph)) == Counter(lines(option.graph))
    assert late_of(lines(PlanDocument.parse(document.text).graph)) == late_of(lines(document.graph))


def test_an_over_window_with_a_python_function_takes_the_hint(tmp_path: Path) -> None:
    inputs(tmp_path)
    function = "CREATE FUNCTION largest AS 'tests.support.plan_functions.pmax' LANGUAGE PYTHON;"
    over = "OVER (PARTITION BY k ORDER BY rt ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"
    insert = f"INSERT INTO snk SELECT /*+ LATE_ROWS('late') */ largest(CAST(id AS BIGINT)) {over} FROM e;"
    _, document = compiled(tmp_path, late_table_of("late") + E + function + SNK.format("largest BIGINT") + insert)
    (node,) = (node for node in document.graph.nodes if node.title == "python-over-aggregate")
    assert late_table(node, 0) == "late"


def test_each_operator_has_its_table(tmp_path: Path) -> None:
    """By hints, by input, and by the option where no hint says anything."""
    inputs(tmp_path)
    write(tmp_path / "f.json", (7, 9, 2))
    script = (
        LATE
        + late_table_of("late_e")
        + late_table_of("late_f")
        + E
        + F
        + SNK.format("id INT").replace("snk", "s1")
        + SNK.format("id INT").replace("snk", "s2")
        + """EXECUTE STATEMENT SET BEGIN
        INSERT INTO s1 SELECT /*+ LATE_ROWS('e' = 'late_e', 'f' = 'late_f') */ e.id FROM e JOIN f
          ON e.k = f.k AND e.rt BETWEEN f.rt - INTERVAL '1' SECOND AND f.rt;
        INSERT INTO s2 SELECT id FROM e ORDER BY rt;
        END;"""
    )
    environment = TableEnvironment.create({"table.local-time-zone": "UTC"})
    *before, last = read_script(script.replace("{folder}", str(tmp_path)))
    for statement in before:
        environment.execute_statement(statement)
    got = lines(environment.session.compiler.document(Inserts.of(last.node, last.source)).graph)
    of = {
        name: {(parts[0].split("[")[1], json.loads(parts[5].rstrip("]"))["rt"][-2:]) for parts in rows}
        for name in ("late", "late_e", "late_f")
        if (rows := [line.split("> ", 1)[1].split(", ", 5) for line in got if line.startswith(f"{name}> ")])
    }
    assert of == {
        "late": {("temporal-sort", "13"), ("temporal-sort", "14")},
        "late_e": {("interval-join", "13"), ("interval-join", "14")},
        "late_f": {("interval-join", "02")},
    }


FIRST = "SELECT *, ROW_NUMBER() OVER (PARTITION BY id ORDER BY rt) AS n FROM e"


@pytest.mark.parametrize(
    "query",
    [
        "SELECT /*+ LATE_ROWS('late') */ id FROM v",
        "SELECT /*+ LATE_ROWS('v' = 'late') */ id FROM v",
        "WITH w AS (SELECT COUNT(*) OVER (ORDER BY rt) n FROM e) SELECT /*+ LATE_ROWS('late') */ CAST(n AS INT) FROM w",
        f"SELECT /*+ LATE_ROWS('d' = 'late') */ id FROM ({FIRST}) AS d WHERE n = 1",
        f"SELECT /*+ LATE_ROWS('late'), STATE_TTL('d' = '1 d') */ id FROM ({FIRST}) AS d WHERE n = 1",
    ],
)
def test_a_hint_reaches_what_a_select_without_state_reads(query: str, tmp_path: Path) -> None:
    """As STATE_TTL does."""
    inputs(tmp_path)
    view = f"CREATE VIEW v AS SELECT id FROM ({FIRST}) WHERE n = 1;"
    _, document = compiled(
        tmp_path, f"{late_table_of('late')} {E} {view} {SNK.format('id INT')} INSERT INTO snk {query};"
    )
    assert len(late_of(lines(document.graph))) == 2


def test_operators_with_other_tables_are_not_shared(tmp_path: Path) -> None:
    inputs(tmp_path)
    query = "SELECT /*+ LATE_ROWS('{}') */ id, COUNT(*) OVER (ORDER BY rt) AS n FROM e"
    union = f"{query.format('late_a')} UNION ALL {query.format('late_b')}"
    tables = late_table_of("late_a") + late_table_of("late_b") + E + SNK.format("id INT, n BIGINT")
    _, document = compiled(tmp_path, f"{tables} INSERT INTO snk {union};")
    got = lines(document.graph)
    assert [sum(line.startswith(f"late_{name}>") for line in got) for name in "ab"] == [2, 2]


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ("SELECT /*+ LATE_ROWS('late') */ id FROM e", "SQL124"),
        ("SELECT /*+ LATE_ROWS('late') */ id FROM e GROUP BY id", "SQL124"),
        ("SELECT /*+ LATE_ROWS('late') */ id FROM (SELECT id FROM e ORDER BY rt) WHERE id > 1 GROUP BY id", "SQL124"),
        ("SELECT /*+ LATE_ROWS() */ id FROM e ORDER BY rt", "SQL121"),
        ("SELECT /*+ LATE_ROWS('late', 'late') */ id FROM e ORDER BY rt", "SQL121"),
        ("SELECT /*+ LATE_ROWS('x' = 'late') */ id FROM e ORDER BY rt", "SQL123"),
        ("SELECT /*+ LATE_ROWS('nosuch') */ id FROM e ORDER BY rt", "CAT002"),
        ("SELECT /*+ LATE_ROWS('snk') */ id FROM e ORDER BY rt", "OPT008"),
        ("SELECT /*+ LATEROWS('late') */ id FROM e ORDER BY rt", "SQL120"),
    ],
)
def test_a_hint_that_cannot_be_followed_is_refused(query: str, code: str, tmp_path: Path) -> None:
    inputs(tmp_path)
    tables = late_table_of("late") + E + SNK.format("id INT")
    with pytest.raises(StateplanError) as caught:
        compiled(tmp_path, f"{tables} INSERT INTO snk {query};")
    assert caught.value.code == code


def test_the_plan_has_the_table_as_a_sink_without_rows(tmp_path: Path) -> None:
    """A plan file keeps it, with all that a table in a plan has, and Flink finds nothing that it does not know."""
    inputs(tmp_path)
    columns, query = QUERIES["match"]
    environment, document = compiled(tmp_path, LATE + E + SNK.format(columns) + f"INSERT INTO snk {query};")
    values, sink = document.graph.nodes[-2:]
    assert (values.title, sink.title) == ("values", "sink")
    assert sink.to_json()["stateplan"]["sideOutput"] == "late-rows"
    read = PlanDocument.parse(document.text)
    environment.execute_sql("RESET 'late-rows.table'")
    assert len(late_of(lines(restore(read, environment.catalog, {}).graph))) == 2


def test_a_query_that_drops_nothing_has_no_such_sink(tmp_path: Path) -> None:
    inputs(tmp_path)
    _, document = compiled(tmp_path, LATE + E + SNK.format("id INT") + "INSERT INTO snk SELECT id FROM e;")
    assert [node.title for node in document.graph.sinks] == ["sink"]


def test_updates_and_times_with_a_zone(tmp_path: Path) -> None:
    """Any columns in any order; times are instants in the zone of the session."""
    inputs(tmp_path)
    columns = "row_json STRING, row_time TIMESTAMP_LTZ(3)"
    late = f"CREATE TABLE late ({columns}) WITH ('connector' = 'print', 'print-identifier' = 'late');"
    script = f"{late} SET 'late-rows.table' = 'default_database.late'; {E} {SNK.format('id INT')}"
    _, document = compiled(tmp_path, f"{script} INSERT INTO snk SELECT id FROM e ORDER BY rt;")
    zone = {"table.local-time-zone": "Asia/Shanghai"}
    assert late_of(lines(document.graph, **zone)) == [
        '+I[{"id":4,"rt":"2026-01-01T00:00:13"}, 2025-12-31T16:00:13Z]',
        '+I[{"id":5,"rt":"2026-01-01T00:00:14"}, 2025-12-31T16:00:14Z]',
    ]


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ("operator STRING, rowjson STRING", "OPT008"),
        ("operator INT", "OPT008"),
        ("row_time TIMESTAMP(3)", "OPT008"),
        ("row_json STRING NOT NULL", "OPT008"),
        ("row_json VARCHAR(10)", "OPT008"),
        (None, "CAT002"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(columns: str | None, code: str, tmp_path: Path) -> None:
    table = f"CREATE TABLE late ({columns}) WITH ('connector' = 'print');" if columns else ""
    script = f"{table} SET 'late-rows.table' = 'late'; {E} {SNK.format('id INT')}"
    with pytest.raises(StateplanError) as caught:
        compiled(tmp_path, f"{script} INSERT INTO snk SELECT id FROM e ORDER BY rt;")
    assert caught.value.code == code
    if columns == "operator STRING, rowjson STRING":
        assert "row_json" in (caught.value.hint or "")


@pytest.mark.spark
@pytest.mark.parametrize("name", ["local-window-aggregate", "over-aggregate"])
def test_late_rows_are_written_once(name: str, spark: object, tmp_path: Path) -> None:
    """Over restarts and micro-batches that run again: taken out in front of an operator, and by one."""
    job, query = Restarted(tmp_path), QUERIES[name][1]
    job.arrive(10, 40, 12)
    job.run(query)
    assert job.late() == [3]
    forget_the_last_commit(tmp_path / "checkpoint")
    job.run(query)
    assert job.late() == [3]
    job.arrive(13, 50, 14)
    job.run(query)
    assert job.late() == [3, 4, 6]


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.parametrize("when", ["before", "after"])
def test_late_rows_are_written_once_by_a_process_that_dies(when: str, spark: object, tmp_path: Path) -> None:
    """The results of the micro-batch are visible then, or not yet."""
    job = Restarted(tmp_path)
    job.arrive(10, 40, 12, 41, 13, 50)
    code = f"from tests.e2e.late_rows_job import *; die_in_the_commit_of_late_rows({str(tmp_path)!r}, {when!r})"
    died = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert died.returncode == 9, died.stderr
    job.run(QUERIES["over-aggregate"][1])
    assert job.late() == [3, 5]
    texts = [p.read_text() for p in (tmp_path / "snk").iterdir() if p.is_file() and p.name[0] not in "._"]
    assert sorted(json.loads(line)["id"] for text in texts for line in text.splitlines()) == [1, 2, 4, 6]
