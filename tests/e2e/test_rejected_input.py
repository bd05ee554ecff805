"""What ``ignore-parse-errors`` skips goes to the table that ``errors.table`` of the format names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stateplan.common.errors import StateplanError
from stateplan.plans.document import PlanDocument
from stateplan.runtime.translate import translate
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import restore
from tests.e2e.file_arrivals import forget_the_last_commit
from tests.support.kafka import Kafka
from tests.support.local import printed

ERRORS = """CREATE TABLE bad (source_table STRING, file_path STRING, line_number BIGINT, message_text STRING,
    error_text STRING) WITH ('connector' = 'print', 'print-identifier' = 'bad')"""
INPUT = {
    "json": ('{"a": 1}\n{"a": \nnonsense\n{"a": 2}\n\n', ["2", "3"]),
    "csv": ("1\n1,2,3\n2\n", ["2"]),
    "debezium-json": (
        '{"before": null, "after": {"a": 1}, "op": "c"}\n{"op": "c"}\n[]x\n'
        '{"before": null, "after": {"a": 2}, "op": "c"}\n',
        ["2", "3"],
    ),
}


def session(folder: Path, name: str, **options: str) -> TableEnvironment:
    environment = TableEnvironment.create()
    environment.execute_sql(ERRORS)
    given = {
        "connector": "filesystem",
        "path": str(folder / "in"),
        "format": name,
        f"{name}.ignore-parse-errors": "true",
        f"{name}.errors.table": "bad",
        **options,
    }
    written = ", ".join(f"'{key}' = '{text}'" for key, text in given.items() if text)
    environment.execute_sql(f"CREATE TABLE src (a INT) WITH ({written})")
    environment.execute_sql("CREATE TABLE snk (a INT) WITH ('connector' = 'print')")
    return environment


def document(environment: TableEnvironment, sql: str = "INSERT INTO snk SELECT a FROM src") -> PlanDocument:
    from stateplan.session.script import Inserts, read_script

    statement = read_script(f"{sql};")[-1]
    return environment.session.compiler.document(Inserts.of(statement.node, statement.source))


def rejected(lines: list[str]) -> list[list[str]]:
    return [line.removeprefix("bad> +I[").split(", ", 4) for line in lines if line.startswith("bad>")]


@pytest.mark.parametrize("name", INPUT)
def test_skipped_input_is_kept_with_its_place(name: str, tmp_path: Path) -> None:
    text, expected = INPUT[name]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text(text)
    (tmp_path / "in" / "2").write_text(text.replace("1", "7", 1))
    got = printed(translate(document(session(tmp_path, name)).graph, {}, 1))
    assert sorted(line for line in got if line[0] == "+") == ["+I[1]", "+I[2]", "+I[2]", "+I[7]"]
    bad = rejected(got)
    assert [(Path(parts[1]).name, parts[2]) for parts in bad] == [(file, n) for file in "12" for n in expected]
    given = text.splitlines()
    for parts in bad[: len(expected)]:
        assert parts[0] == "default_catalog.default_database.src"
        assert parts[3] == given[int(parts[2]) - 1] or "," in given[int(parts[2]) - 1]


def test_the_plan_has_options_that_flink_knows_and_keeps_the_table(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text(INPUT["json"][0])
    environment = session(tmp_path, "json")
    made = document(environment)
    assert "errors.table" not in made.text.replace("sideOutput", "")
    graph = restore(PlanDocument.parse(made.text), environment.catalog, {}).graph
    assert "errors.table" not in str(graph.nodes[0].to_json())
    assert len(rejected(printed(translate(graph, {}, 1)))) == 2


def test_a_table_that_is_read_twice_gives_each_error_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1").write_text(INPUT["json"][0])
    environment = session(tmp_path, "json")
    environment.execute_sql("SET 'table.optimizer.reuse-source-enabled' = 'false'")
    sql = "INSERT INTO snk SELECT l.a FROM src l JOIN src r ON l.a = r.a"
    assert len(rejected(printed(translate(document(environment, sql).graph, {}, 1)))) == 2


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"json.ignore-parse-errors": "false"}, "OPT009"),
        ({"json.ignore-parse-errors": ""}, "OPT009"),
        ({"connector": "replay"}, "OPT009"),
        ({"json.errors.table": "missing"}, "CAT002"),
        ({"json.errors.table": "snk"}, "OPT008"),
    ],
)
def test_what_cannot_be_kept_is_refused(options: dict[str, str], code: str, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(StateplanError) as caught:
        document(session(tmp_path, "json", **options))
    assert caught.value.code == code


def test_messages_of_kafka_have_their_offsets(kafka: Kafka, capsys: pytest.CaptureFixture[str]) -> None:
    topic = kafka.topic()
    kafka.produce(topic, ['{"a": 1}', "x", '{"a": 2}', '{"a": '])
    made = TableEnvironment.create()
    columns = "topic_name STRING, partition_number INT, offset_number BIGINT, message_bytes BYTES, line_number BIGINT"
    made.execute_sql(f"CREATE TABLE bad ({columns}) WITH ('connector' = 'print')")
    made.execute_sql(
        f"CREATE TABLE t (a INT) WITH ('connector' = 'kafka', 'properties.bootstrap.servers' = '{kafka.servers}', "
        f"'topic' = '{topic}', 'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', "
        "'value.format' = 'json', 'value.json.ignore-parse-errors' = 'true', 'value.json.errors.table' = 'bad')"
    )
    assert [tuple(row) for row in made.execute_sql("SELECT a FROM t").collect()] == [(1,), (2,)]
    assert capsys.readouterr().out.splitlines() == [
        f"+I[{topic}, 0, 1, [120], null]",
        f"+I[{topic}, 0, 3, [123, 34, 97, 34, 58, 32], null]",
    ]


def read(folder: Path) -> list[dict[str, object]]:
    texts = [p.read_text() for p in folder.iterdir() if p.is_file() and p.name[0] not in "._"]
    return [json.loads(line) for text in texts for line in text.splitlines()]


@pytest.mark.spark
def test_errors_are_written_once(spark: object, tmp_path: Path) -> None:
    """Over a restart, and by a micro-batch that runs again."""
    (tmp_path / "in").mkdir()

    def run(number: int, text: str) -> list[tuple[str, object]]:
        (tmp_path / "in" / f"{number}.json").write_text(text)
        environment = TableEnvironment.create({"execution.checkpointing.dir": str(tmp_path / "checkpoint")})
        for name, columns in (("snk", "a INT"), ("bad", "file_path STRING, line_number BIGINT")):
            environment.execute_sql(
                f"CREATE TABLE {name} ({columns}) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/{name}', "
                "'format' = 'json')"
            )
        environment.execute_sql(
            f"CREATE TABLE src (a INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path}/in', 'format' = 'json', "
            "'json.ignore-parse-errors' = 'true', 'json.errors.table' = 'bad')"
        )
        environment.execute_sql("INSERT INTO snk SELECT a FROM src").wait()
        return sorted((Path(str(row["file_path"])).name, row["line_number"]) for row in read(tmp_path / "bad"))

    assert run(1, '{"a": 1}\nx\n') == [("1.json", 2)]
    forget_the_last_commit(tmp_path / "checkpoint")
    assert run(2, 'y\n{"a": 2}\nz\n') == [("1.json", 2), ("2.json", 1), ("2.json", 3)]
    assert sorted(row["a"] for row in read(tmp_path / "snk")) == [1, 2]
