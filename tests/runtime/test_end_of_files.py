"""Which marker says that the input of a job ends."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from stateplan.common.roots import Roots
from stateplan.connectors.listing import says_end
from stateplan.runtime.sources import Sources
from stateplan.runtime.spark.checkpoint_files import SparkCheckpoint
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment

WINDOWS = "(SELECT window_time AS t, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(ts), INTERVAL '1' HOUR)) {})"
GROUPED = WINDOWS.format("GROUP BY window_start, window_end, window_time")
JOINED = f"SELECT b.n FROM {GROUPED} AS w JOIN b ON w.n = b.n AND b.ts BETWEEN w.t - INTERVAL '1' HOUR AND w.t"


class Tables:
    def __init__(self, folder: Path, query: str = JOINED, more: str = "'source.max-files-per-trigger' = '2'") -> None:
        self.folder = folder
        env = TableEnvironment.create({})
        for name in ("a", "b"):
            (folder / name).mkdir()
            env.execute_sql(
                f"CREATE TABLE {name} (ts TIMESTAMP(3), n BIGINT, WATERMARK FOR ts AS ts) WITH ('connector' = "
                f"'filesystem', 'path' = '{folder / name}', 'format' = 'json', {more})"
            )
        env.execute_sql("CREATE TABLE snk (n BIGINT) WITH ('connector' = 'blackhole')")
        graph = env.compile_plan_sql(f"INSERT INTO snk {query}").document.graph
        self.job = translate(graph, {}, 4, job_id="j", start_time=0)

    def add(self, table: str, *names: str) -> None:
        for name in names:
            (self.folder / table / name).write_text("{}")

    def prepare(self, counts_batches: bool = True) -> list[str]:
        """What a job that starts now writes; the tables with a marker that says that the input ends."""
        spark = SparkCheckpoint(self.folder / "spark")
        sources = Sources(self.job, {}, self.folder / "splits", spark, counts_batches=counts_batches)
        sources.prepare()
        ends = []
        for source in self.job.sources:
            folder = self.folder / "splits" / source.marks
            said = [says_end(m.read_bytes()) for m in sorted(folder.glob("[0-9]*"))] if folder.is_dir() else []
            assert not any(said[:-1])
            ends += [source.name.rpartition(".")[2]] * any(said)
        assert sources.end_themselves == bool(ends)
        return ends


def test_the_driver_lists_local_files_below_roots(tmp_path: Path) -> None:
    """Spark would follow a link that appears later, and record the names of files elsewhere. It lists what it has
    listed before."""
    tables = Tables(tmp_path, "SELECT n FROM a", "'source.monitor-interval' = '1 s'")
    (source,) = tables.job.sources
    tables.add("a", "1")
    tables.prepare()
    assert not (tmp_path / "splits" / source.marks).exists()
    tables.job = replace(tables.job, roots=Roots((str(tmp_path),)))
    (tmp_path / "spark" / "offsets").mkdir(parents=True)
    (tmp_path / "spark" / "offsets" / "0").touch()
    tables.prepare()
    assert not (tmp_path / "splits" / source.marks).exists()
    (tmp_path / "spark" / "offsets" / "0").unlink()
    tables.prepare()
    assert len(list((tmp_path / "splits" / source.marks).glob("[0-9]*"))) == 1


def test_input_that_fits_into_a_micro_batch_ends_where_all_operators_hear_of_it(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    assert tables.prepare() == ["a"], "b enters at the second level"
    tables.add("b", "1")
    assert tables.prepare() == ["a"]
    tables.add("a", "1", "2")
    assert tables.prepare() == ["a"]


def test_event_time_goes_on_where_others_continue(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.add("a", "1")
    tables.job = replace(tables.job, open_ended=True)
    assert tables.prepare() == []


def test_an_end_that_no_micro_batch_was_told_is_taken_back(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.add("a", "1")
    tables.add("b", "1")
    assert tables.prepare() == ["a"]
    tables.add("b", "2", "3")
    assert tables.prepare(counts_batches=False) == [], "b has more than one micro-batch now"
    (tmp_path / "spark" / "offsets").mkdir(parents=True)
    (tmp_path / "spark" / "sources" / "1").mkdir(parents=True)
    taken = next((tmp_path / "splits" / tables.job.sources[1].marks).iterdir())
    (tmp_path / "spark" / "offsets" / "0").write_text('v1\n{}\n-\n{"logOffset":0}')
    entry = f'{{"path":"{taken.as_uri()}","timestamp":0,"batchId":0}}'
    (tmp_path / "spark" / "sources" / "1" / "0").write_text(f"v1\n{entry}")
    assert tables.prepare(counts_batches=False) == ["a"], "the rest fits"


def markers(tables: Tables, source: int) -> list[str]:
    """The texts of the markers of a source."""
    folder = tables.folder / "splits" / tables.job.sources[source].marks
    return [m.name.partition("_")[2] for m in sorted(folder.glob("[0-9]*"))]


def test_the_source_that_all_operators_hear_of_ends_with_the_last_one(tmp_path: Path) -> None:
    tables = Tables(tmp_path)
    tables.add("a", "1", "2", "3")
    tables.add("b", *"123456")
    assert tables.prepare() == ["a"]
    assert (markers(tables, 0), markers(tables, 1)) == ([*"111", "0_end"], ["1"] * 6)
    tables.add("b", "7", "8", "9")
    assert tables.prepare() == ["a"]
    assert (markers(tables, 0), markers(tables, 1)) == ([*"11100", "0_end"], ["1"] * 9)
    tables.add("a", *"456789")
    assert tables.prepare() == ["a"]
    assert (markers(tables, 0), markers(tables, 1)) == ([*"11111111", "1_end"], ["1"] * 9)
    tables.add("b", *(str(n) for n in range(10, 20)))
    assert tables.prepare() == ["a"]
    assert markers(tables, 0) == [*"1111111110000", "0_end"]
    tables.job = replace(tables.job, open_ended=True)
    assert tables.prepare() == []
    assert markers(tables, 0) == ["1"] * 9, "what was said is taken back"


def test_sources_of_very_different_lengths_take_a_query_of_their_own(tmp_path: Path) -> None:
    tables = Tables(tmp_path, more="'source.max-files-per-trigger' = '1000'")
    tables.add("a", "1")
    tables.add("b", *map(str, range(4100)))
    assert tables.prepare() == ["a"]
    assert markers(tables, 0) == ["1", "0", "0", "0", "0_end"]
    tables.add("b", *map(str, range(4100, 40_000)))
    assert tables.prepare() == []
    assert markers(tables, 0) == ["1"]


def test_input_of_several_micro_batches_ends_with_its_last_files_alone(tmp_path: Path) -> None:
    tables = Tables(tmp_path, f"SELECT n FROM {GROUPED}")
    tables.add("a", *"12345")
    assert tables.prepare() == ["a"]


def test_what_does_not_end_itself(tmp_path: Path) -> None:
    for number, (query, more) in enumerate(
        (
            ("SELECT COUNT(*) FROM a", "'source.max-files-per-trigger' = '2'"),
            (JOINED, "'source.monitor-interval' = '1 s'"),
            (
                f"{JOINED} UNION ALL SELECT * FROM (VALUES (CAST(1 AS BIGINT))) AS v(n)",
                "'source.path.regex-pattern' = '.*'",
            ),
        )
    ):
        (tmp_path / str(number)).mkdir()
        tables = Tables(tmp_path / str(number), query, more)
        tables.add("a", "1")
        assert tables.prepare() == []
