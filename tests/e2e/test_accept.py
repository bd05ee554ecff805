"""A changed plan on an existing checkpoint: refused, or run with what was accepted, state by state as predicted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.session.environment import TableEnvironment

pytestmark = pytest.mark.spark

COUNT = "SELECT k, COUNT(*) FROM src GROUP BY k"
SUM = "SELECT k, SUM(v) FROM src GROUP BY k"
MAX = "SELECT k, MAX(v) FROM src GROUP BY k"


class Jobs:
    """Plans over replay tables and one checkpoint directory; each ``run`` plays the rows that have come since."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys
        self.checkpoint = folder / "checkpoint"
        self.notes: tuple[str, ...] = ()
        for name in ("src", "other"):
            (folder / f"{name}.json").touch()

    def arrive(self, at: int, *rows: tuple[int, int], table: str = "src") -> None:
        with (self.folder / f"{table}.json").open("a") as out:
            out.writelines(json.dumps({"k": k, "v": v, "w": 10 * v, "@at": at}) + "\n" for k, v in rows)

    def run(self, *queries: str, accept: str = "none", ttl: str = "0 ms", **paths: str) -> list[str]:
        """The lines printed, sorted; those of the first query begin with ``a>``, of the next with ``b>``."""
        environment = TableEnvironment.create(
            {
                "pipeline.max-parallelism": "2",
                "execution.checkpointing.dir": str(self.checkpoint),
                "execution.state-recovery.accept": accept,
                "table.plan.force-recompile": "true",
                "table.exec.state.ttl": ttl,
            }
        )
        for name in ("src", "other"):
            path = paths.get(name, str(self.folder / f"{name}.json"))
            environment.execute_sql(
                f"CREATE TABLE {name} (k INT, v INT, w INT, pt AS PROCTIME()) "
                f"WITH ('connector' = 'replay', 'path' = '{path}', 'format' = 'json')"
            )
        statements = environment.create_statement_set()
        for name, query in zip("abc", queries, strict=False):
            columns = ", ".join(f"c{i} BIGINT" for i in range(query.split(" FROM ")[0].count(",") + 1))
            environment.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'print', 'print-identifier' = '{name}')"
            )
            statements.add_insert_sql(f"INSERT INTO {name} {query}")
        plan = self.folder / "plan.json"
        statements.compile_plan().write_to_file(plan)
        result = environment.execute_plan(plan)
        self.notes = result.notes
        result.wait()
        return sorted(self.capsys.readouterr().out.splitlines())

    def refuses(self, *queries: str, accept: str = "none", **paths: str) -> CheckpointError:
        with pytest.raises(CheckpointError) as error:
            self.run(*queries, accept=accept, **paths)
        return error.value

    def layout(self) -> dict[str, dict[str, object]]:
        layouts = json.loads((self.checkpoint / "stateplan.json").read_text())["layouts"]
        return layouts[0]


def stored_runs(spark: object, checkpoint: Path, level: int = 1) -> set[int]:
    """The Spark grouping keys that hold runs."""
    reader = spark.read.format("statestore").option("operatorId", level - 1).option("stateVarName", "runs")
    return {row.key.slot for row in reader.load(str(checkpoint / "spark")).select("key").collect()}


@pytest.fixture
def jobs(spark: object, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Jobs:
    return Jobs(tmp_path, capsys)


def test_reset_starts_one_operator_empty_and_keeps_the_others(jobs: Jobs, spark: object) -> None:
    jobs.arrive(0, (1, 10), (2, 20))
    assert jobs.run(COUNT, SUM) == ["a> +I[1, 1]", "a> +I[2, 1]", "b> +I[1, 10]", "b> +I[2, 20]"]
    jobs.arrive(1, (1, 5))

    error = jobs.refuses(COUNT, MAX)
    assert error.code == "CKPT003"
    assert "MAX(v) would not have seen the earlier rows" in error.message
    assert "--accept reset" in str(error.hint)
    assert jobs.refuses(COUNT, MAX, accept="rewrite").code == "CKPT003"

    before = {o["node"]: o["first"] for o in jobs.layout()["operators"]}
    assert jobs.run(COUNT, MAX, accept="reset") == ["a> +U[1, 2]", "a> -U[1, 1]", "b> +I[1, 5]"]
    assert any("starts with empty state: MAX(v)" in note for note in jobs.notes)
    dropped = [d["first"] for d in jobs.layout()["dropped"]]
    assert len(dropped) == 1
    assert dropped[0] in before.values()
    # the key groups of what was given up hold nothing, those of both operators do
    from stateplan.runtime.hashing import slot_label

    held = stored_runs(spark, jobs.checkpoint)
    assert not held & {slot_label(dropped[0] + g) for g in range(2)}
    assert held & {slot_label(o["first"] + g) for o in jobs.layout()["operators"] for g in range(2)}

    jobs.arrive(2, (1, 7), (2, 1))
    assert jobs.run(COUNT, MAX) == [
        "a> +U[1, 3]", "a> +U[2, 2]", "a> -U[1, 2]", "a> -U[2, 1]", "b> +I[2, 1]", "b> +U[1, 7]", "b> -U[1, 5]",
    ]  # fmt: skip
    assert jobs.layout()["dropped"] == []

    # the range that was given up is used again
    jobs.arrive(3, (1, 1))
    assert jobs.run(COUNT, SUM, accept="reset") == ["a> +U[1, 4]", "a> -U[1, 3]", "b> +I[1, 1]"]
    assert dropped[0] in [o["first"] for o in jobs.layout()["operators"]]


def test_order_and_sinks_do_not_matter(jobs: Jobs) -> None:
    jobs.arrive(0, (1, 10))
    assert jobs.run(COUNT, SUM, "SELECT k, v FROM src") == ["a> +I[1, 1]", "b> +I[1, 10]", "c> +I[1, 10]"]
    jobs.arrive(1, (1, 5))
    assert jobs.run(SUM, COUNT) == ["a> +U[1, 15]", "a> -U[1, 10]", "b> +U[1, 2]", "b> -U[1, 1]"]
    assert jobs.notes[0].startswith("the checkpoint was written by another plan")


def test_ttls_run_without_asking_and_are_told(jobs: Jobs) -> None:
    jobs.arrive(0, (1, 10))
    assert jobs.run(COUNT, ttl="1 h") == ["a> +I[1, 1]"]
    jobs.arrive(40 * 60_000, (1, 5))
    assert jobs.run(COUNT, ttl="30 min") == ["a> +I[1, 1]"], "the row of 40 minutes ago has expired"
    assert any("groupAggregateState: ttl 1 h -> ttl 30 min; older rows expire at once" in note for note in jobs.notes)
    jobs.arrive(60 * 60_000, (1, 7))
    assert jobs.run(COUNT, ttl="2 h") == ["a> +U[1, 2]", "a> -U[1, 1]"]
    assert any(note.endswith("groupAggregateState: ttl 30 min -> ttl 2 h") for note in jobs.notes)


def test_rewritten_state_loses_nothing(jobs: Jobs) -> None:
    both = "SELECT k, COUNT(*), SUM(v), MAX(w) FROM src GROUP BY k"
    join = "SELECT s.k, s.v, o.v, o.w FROM src AS s JOIN other AS o ON s.k = o.k"
    fewer = "SELECT s.k, o.w FROM src AS s JOIN other AS o ON s.k = o.k"
    swapped = "SELECT k, MAX(w), COUNT(*) FROM src GROUP BY k"
    jobs.arrive(0, (1, 10), (2, 20))
    jobs.arrive(0, (1, 3), table="other")
    assert jobs.run(both, join) == ["a> +I[1, 1, 10, 100]", "a> +I[2, 1, 20, 200]", "b> +I[1, 10, 3, 30]"]
    jobs.arrive(1, (1, 5))
    jobs.arrive(1, (2, 4), table="other")
    assert jobs.refuses(swapped, fewer).code == "CKPT003"
    assert jobs.run(swapped, fewer, accept="rewrite") == [
        "a> +U[1, 100, 2]", "a> -U[1, 100, 1]", "b> +I[1, 30]", "b> +I[2, 40]",
    ]  # fmt: skip
    assert sum("is rewritten" in note for note in jobs.notes) == 2
    jobs.arrive(2, (2, 99))
    assert jobs.run(swapped, fewer) == ["a> +U[2, 990, 2]", "a> -U[2, 200, 1]", "b> +I[2, 40]"]
    # once more, from a state that has been rewritten before
    jobs.arrive(3, (2, 1))
    assert jobs.run(COUNT, fewer, accept="rewrite") == ["a> +U[2, 3]", "a> -U[2, 2]", "b> +I[2, 40]"]


def test_what_spark_cannot_take_back(jobs: Jobs, tmp_path: Path) -> None:
    jobs.arrive(0, (1, 10))
    jobs.arrive(0, (1, 10), table="other")
    assert jobs.run(COUNT) == ["a> +I[1, 1]"]
    jobs.arrive(1, (1, 5))
    other = "SELECT k, COUNT(*) FROM other GROUP BY k"
    assert jobs.refuses(COUNT, other, accept="unknown").code == "CKPT022"
    deeper = "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM src GROUP BY k) GROUP BY n"
    assert jobs.refuses(deeper, accept="unknown").code == "CKPT021"
    (tmp_path / "moved.json").write_text((tmp_path / "src.json").read_text())
    assert jobs.refuses(COUNT, accept="unknown", src=str(tmp_path / "moved.json")).code == "CKPT023"
    assert jobs.run(COUNT) == ["a> +U[1, 2]", "a> -U[1, 1]"], "the checkpoint was left as it was"


def test_a_shallower_plan_keeps_the_levels(jobs: Jobs) -> None:
    deep = "SELECT n, COUNT(*) FROM (SELECT k, COUNT(*) AS n FROM src GROUP BY k) GROUP BY n"
    jobs.arrive(0, (1, 10), (2, 10))
    assert jobs.run(COUNT, deep) == ["a> +I[1, 1]", "a> +I[2, 1]", "b> +I[1, 2]"]
    jobs.arrive(1, (1, 5))
    assert jobs.run(COUNT, accept="reset") == ["a> +U[1, 2]", "a> -U[1, 1]"]
    jobs.arrive(2, (2, 5))
    assert jobs.run(COUNT, deep, accept="reset") == ["a> +U[2, 2]", "a> -U[2, 1]", "b> +I[1, 1]"]
