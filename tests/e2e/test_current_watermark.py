"""CURRENT_WATERMARK gives the watermark before the micro-batch, so that late rows can be told from others."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError, PlanError
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.script import Inserts, read_script
from tests.e2e.file_arrivals import arrive, forget_the_last_commit
from tests.support.local import printed

E = """CREATE TABLE e (id INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND)
    WITH ('connector' = 'replay', 'path' = '{folder}/e.json', 'format' = 'json');"""
F = E.replace("TABLE e", "TABLE f").replace("e.json", "f.json")
OUT = "CREATE TABLE snk ({}) WITH ('connector' = 'print');"
LATE = "rt <= CURRENT_WATERMARK(rt)"


def write(path: Path, *rows: tuple[int, int, int]) -> None:
    """Rows of (instant in s, id, second of ``rt``)."""
    with path.open("a") as out:
        for at, number, second in rows:
            stamp = f"2026-01-01 00:00:{second:02d}"
            out.write(json.dumps({"@at": 1000 * at, "id": number, "rt": stamp}) + "\n")


def lines(folder: Path, script: str, key_groups: int = 2) -> list[str]:
    """What the last statement of a script prints, one after the other."""
    environment = TableEnvironment.create({"table.local-time-zone": "UTC"})
    *before, last = read_script(script.replace("{folder}", str(folder)))
    for statement in before:
        environment.execute_statement(statement)
    graph = environment.session.compiler.document(Inserts.of(last.node, last.source)).graph
    return printed(translate(graph, {}, key_groups))


ROWS = ((1, 1, 10), (2, 2, 9), (3, 3, 20), (4, 4, 18), (5, 5, 17))


def test_rows_see_the_watermark_before_their_micro_batch(tmp_path: Path) -> None:
    write(tmp_path / "e.json", *ROWS, (5, 6, 40), (5, 7, 18), (6, 8, 30))
    script = E + OUT.format("id INT, wm TIMESTAMP(3), late BOOLEAN")
    got = lines(tmp_path, f"{script} INSERT INTO snk SELECT id, CURRENT_WATERMARK(rt), {LATE} FROM e;")
    assert got == [
        "+I[1, null, null]",
        "+I[2, 2026-01-01T00:00:08, false]",
        "+I[3, 2026-01-01T00:00:08, false]",
        "+I[4, 2026-01-01T00:00:18, true]",
        "+I[5, 2026-01-01T00:00:18, true]",
        "+I[6, 2026-01-01T00:00:18, false]",
        "+I[7, 2026-01-01T00:00:18, true]",
        "+I[8, 2026-01-01T00:00:38, true]",
    ]


def test_late_rows_are_branched_off_what_a_window_would_drop(tmp_path: Path) -> None:
    """The rows of the branch are those that the window does not count, no more and no less. Here no window is open that
    has a late row: such a row is counted all the same, in Flink too."""
    write(tmp_path / "e.json", *ROWS[:3], (4, 4, 16), (5, 5, 17), (6, 6, 30), (7, 7, 25), (8, 8, 29), (9, 9, 40))
    script = (
        E
        + "CREATE TABLE late (id INT) WITH ('connector' = 'print', 'print-identifier' = 'late');"
        + "CREATE TABLE n (w TIMESTAMP(3), n BIGINT) WITH ('connector' = 'print', 'print-identifier' = 'n');"
        + f"EXECUTE STATEMENT SET BEGIN INSERT INTO late SELECT id FROM e WHERE {LATE};"
        "INSERT INTO n SELECT window_start, COUNT(*) FROM TABLE(TUMBLE(TABLE e, DESCRIPTOR(rt), INTERVAL '1' SECOND)) "
        "GROUP BY window_start, window_end; END;"
    )
    got = lines(tmp_path, script)
    late = [line for line in got if line.startswith("late")]
    assert late == ["late> +I[4]", "late> +I[5]", "late> +I[7]"]
    assert sum(int(line.rstrip("]").rpartition(" ")[2]) for line in got if line.startswith("n>")) == 9 - len(late)


def test_a_union_has_the_least_watermark_of_its_inputs(tmp_path: Path) -> None:
    """A subquery that is not taken apart: what both inputs amount to is read behind the union. With ``n`` behind it,
    the watermark would be read before OVER and the union, as in Flink."""
    write(tmp_path / "e.json", (1, 1, 10), (3, 3, 20), (5, 5, 30))
    write(tmp_path / "f.json", (2, 2, 15), (4, 4, 12))
    script = E + F + OUT.format("id INT, n BIGINT, wm TIMESTAMP(3)")
    query = (
        "INSERT INTO snk SELECT id, n, CURRENT_WATERMARK(rt) FROM (SELECT id, rt, COUNT(*) OVER (PARTITION BY id "
        "ORDER BY rt) AS n FROM (SELECT * FROM e UNION ALL SELECT * FROM f));"
    )
    got = lines(tmp_path, script + query)
    # Rows wait for the watermark of both: 8 after the second, and 13 from the second row of f on; the end of input
    # lets the fifth row pass. The fourth one is late.
    assert sorted(got) == [
        "+I[1, 1, 2026-01-01T00:00:08]",
        "+I[2, 1, 2026-01-01T00:00:13]",
        "+I[3, 1, 2026-01-01T00:00:13]",
        "+I[5, 1, 2026-01-01T00:00:13]",
    ]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT e.id FROM e JOIN f ON e.id = f.id AND e.rt > CURRENT_WATERMARK(f.rt)",
        "SELECT * FROM e MATCH_RECOGNIZE (ORDER BY rt MEASURES A.id AS id ONE ROW PER MATCH PATTERN (A) "
        "DEFINE A AS A.rt > CURRENT_WATERMARK(A.rt))",
    ],
)
def test_where_flinks_job_fails_the_plan_is_refused(query: str, tmp_path: Path) -> None:
    write(tmp_path / "e.json", (1, 1, 10))
    write(tmp_path / "f.json", (1, 1, 10))
    with pytest.raises(PlanError) as caught:
        lines(tmp_path, E + F + OUT.format("id INT") + f"INSERT INTO snk {query};")
    assert caught.value.code == "PLAN019"


class Restarted:
    """A job of Spark over files, one of a micro-batch each, that is started again and again."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        (folder / "in").mkdir()

    def arrive(self, *seconds: int) -> None:
        arrive(self.folder / "in", *({"rt": f"2026-01-01 00:00:{second:02d}"} for second in seconds))

    def run(self) -> list[str]:
        place = str(self.folder / "checkpoint")
        session = TableEnvironment.create({"execution.checkpointing.dir": place, "pipeline.max-parallelism": "2"})
        session.execute_sql(
            "CREATE TABLE e (id INT, rt TIMESTAMP(3), WATERMARK FOR rt AS rt - INTERVAL '2' SECOND) WITH ('connector' "
            f"= 'filesystem', 'path' = '{self.folder}/in', 'format' = 'json', 'source.max-files-per-trigger' = '1')"
        )
        session.execute_sql("CREATE TABLE snk (id INT, wm TIMESTAMP(3)) WITH ('connector' = 'print')")
        session.execute_sql("INSERT INTO snk SELECT id, CURRENT_WATERMARK(rt) FROM e").wait()
        return self.capsys.readouterr().out.splitlines()


@pytest.mark.spark
def test_a_restart_and_a_repeated_micro_batch_read_what_the_checkpoint_has(
    spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Restarted(tmp_path, capsys)
    job.arrive(10, 9, 20)
    assert job.run() == ["+I[1, null]", "+I[2, 2026-01-01T00:00:08]", "+I[3, 2026-01-01T00:00:08]"]
    job.arrive(18, 30)
    assert job.run() == ["+I[4, 2026-01-01T00:00:18]", "+I[5, 2026-01-01T00:00:18]"]
    forget_the_last_commit(tmp_path / "checkpoint")
    assert job.run() == ["+I[5, 2026-01-01T00:00:18]"]
    job.arrive(17)
    assert job.run() == ["+I[6, 2026-01-01T00:00:28]"]
    (tmp_path / "checkpoint" / "watermarks.json").unlink()
    job.arrive(17)
    with pytest.raises(CheckpointError) as caught:
        job.run()
    assert caught.value.code == "CKPT005"
