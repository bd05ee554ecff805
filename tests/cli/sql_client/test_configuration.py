"""Configuration files: which are read, what overrides what, and where a mistake is."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from stateplan.cli.sql_client.configuration import Settings, load, standard_files
from stateplan.common.errors import OptionError, Place, StateplanError
from stateplan.common.redaction import MASK
from stateplan.session.environment import TableEnvironment
from tests.support.command import Command, command

FILE = """\
# as Flink's config.yaml
table.exec.state.ttl: 1 d
execution:
  checkpointing:
    dir: "/data/checkpoints"   # nested
  state-recovery.accept: rewrite
metrics.reporters: [a, b]
parallelism.default: 0x2
pipeline.name:
options:
  table:
    local-time-zone: Europe/Berlin
views:
  - "CREATE VIEW v AS SELECT a FROM t"
tables:
  - CREATE TABLE t (a INT) WITH ('connector' = 'datagen')
  - |
    CREATE TABLE u (
      a INT
    ) WITH ('connector' = 'datagen');
"""


@pytest.fixture
def stateplan(capsys: pytest.CaptureFixture[str]) -> Command:
    return command(capsys)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine, a user and a working directory of their own."""
    monkeypatch.setenv("XDG_CONFIG_DIRS", f"{tmp_path / 'etc'}{os.pathsep}{tmp_path / 'other'}")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "user"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path


def written(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def test_a_file(tmp_path: Path) -> None:
    file = written(tmp_path / "c.yaml", FILE)
    settings = load([file], {}, standard=False)
    assert settings.values() == {
        "table.exec.state.ttl": "1 d",
        "execution.checkpointing.dir": "/data/checkpoints",
        "execution.state-recovery.accept": "rewrite",
        "metrics.reporters": "a,b",
        "parallelism.default": "0x2",
        "table.local-time-zone": "Europe/Berlin",
    }
    assert settings.options["execution.checkpointing.dir"].origin == f"{file}:5"
    session = TableEnvironment.create()
    for declaration in settings.statements():
        session.execute_sql(declaration.statement)
    assert session.list_tables() == ["t", "u", "v"]
    assert [d.origin for d in settings.statements()] == [f"{file}:16", f"{file}:18", f"{file}:14"]


def test_later_files_override_earlier_ones(home: Path) -> None:
    for place, zone in (("etc", "UTC"), ("other", "Asia/Tokyo"), ("user", "Europe/Paris")):
        text = (
            f"table.local-time-zone: {zone}\npipeline.name: {place}\n"
            if place != "user"
            else f"pipeline.name: {place}\n"
        )
        written(home / place / "stateplan" / "config.yaml", text)
    given = written(home / "given.yaml", "parallelism.default: 4\n")
    assert load([given], {}).values() == {
        "table.local-time-zone": "UTC",
        "pipeline.name": "user",
        "parallelism.default": "4",
    }
    written(home / "work" / "stateplan.yaml", "pipeline.name: project\nparallelism.default: 3\n")
    settings = load([given], {"parallelism.default": "5"})
    assert settings.values()["pipeline.name"] == "project"
    assert settings.options["parallelism.default"].origin == "-D"
    assert [path.parent.parent.name for path in standard_files()[:3]] == ["other", "etc", "user"]
    assert load([], {}, standard=False).values() == {}


def test_without_variables_the_usual_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CONFIG_DIRS", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert list(map(str, standard_files())) == [
        "/etc/stateplan/config.yaml",
        "/home/me/.config/stateplan/config.yaml",
        "stateplan.yaml",
    ]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("a: [", "[OPT412] the configuration file is malformed: expected the node content, but found '<stream end>'\n"
         "  --> c.yaml, line 1, column 5\n  a: [\n      ^"),
        ("- x", "[OPT412] the configuration file is malformed: it does not have the form KEY: VALUE\n"
         "  --> c.yaml, line 1, column 1\n  - x\n  ^"),
        ("a: 1\nb: 2\na: 3", "[OPT412] the configuration file is malformed: 'a' is set twice, on line 1 too\n"
         "  --> c.yaml, line 3, column 1\n  a: 3\n  ^"),
        ("x:\n  y: &a\n    z: *a", "[OPT412] the configuration file is malformed: it is nested too deeply\n"),
        ("tables: t", "[OPT412] the configuration file is malformed: the section 'tables' is not a list of statements\n"
         "  --> c.yaml, line 1, column 9\n  tables: t\n          ^"),
        ("a: [[b]]", "[OPT412] the configuration file is malformed: the list 'a' holds more than texts\n"),
        ("options: 1", "[OPT412] the configuration file is malformed: the section 'options' does not have the form "
         "KEY: VALUE\n"),
        ("options:\n  [a]: 1", "[OPT412] the configuration file is malformed: a key is not a text\n"),
        ("a: \x01", "[OPT412] the configuration file is malformed: unacceptable character"),
        ("table.exec.state.tll: 1 d", "[OPT001] unknown option 'table.exec.state.tll'\n"
         "  --> c.yaml, line 1, column 1\n  table.exec.state.tll: 1 d\n  ^\n"),
        ("a:\nparallelism:\n  default: many", "[OPT105] 'many' is not a value of the option 'parallelism.default'\n"
         "  --> c.yaml, line 3, column 3\n"),
    ],
)  # fmt: skip
def test_mistakes_have_their_line(text: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(text)
    with pytest.raises(OptionError) as raised:
        load(["c.yaml"], {}, standard=False).check()
    assert str(raised.value).startswith(error)


@pytest.mark.parametrize(
    ("item", "place"),
    [
        ("  - |\n    CREATE TABLE u (\n      a IMT\n    )", (4, 9)),
        ("  - CREATE TABLE u (a IMT)", (2, 23)),
        ("  - 'CREATE TABLE u (a IMT)'", (2, 5)),
        ("  - CREATE TABLE u\n    (a IMT)", (2, 5)),
        ("  - >\n    CREATE TABLE u\n    (a IMT)", (2, 5)),
    ],
)
def test_a_wrong_statement_has_its_line(item: str, place: tuple[int, int], tmp_path: Path) -> None:
    file = written(tmp_path / "c.yaml", f"tables:\n{item}\n")
    (declaration,) = load([file], {}, standard=False).statements()
    with pytest.raises(StateplanError) as raised:
        TableEnvironment.create().execute_sql(declaration.statement)
    found = declaration.at_file(raised.value).place
    assert found is not None
    assert (found.file, found.line, found.column) == (file, *place)


def test_an_error_elsewhere_keeps_its_place(tmp_path: Path) -> None:
    (declaration,) = load([written(tmp_path / "c", "tables: [a]")], {}, standard=False).statements()
    error = StateplanError("BUG000", what="x", place=Place("other", 7))
    assert declaration.at_file(error).place == Place("other", 7)


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No such file"):
        load([str(tmp_path / "none.yaml")], {}, standard=False)
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionError, match="UTF-8"):
        load([str(tmp_path / "bytes.yaml")], {}, standard=False)


def test_an_empty_file(tmp_path: Path) -> None:
    settings = Settings()
    settings.read(Path(written(tmp_path / "a.yaml", "")))
    settings.read(Path(written(tmp_path / "b.yaml", "# nothing\n---\n")))
    settings.read(Path(written(tmp_path / "c.yaml", "tables:\nviews: []\n")))
    assert (settings.values(), settings.declarations) == ({}, [])


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_not_read(home: Path) -> None:
    file = home / "work" / "stateplan.yaml"
    written(file, "pipeline.name: x")
    os.chown(file, 12345, 12345)
    with pytest.raises(OptionError, match="OPT413"):
        load([], {})
    assert load([str(file)], {}, standard=False).values() == {"pipeline.name": "x"}


def test_show_config(stateplan: Command, home: Path) -> None:
    written(home / "work" / "stateplan.yaml", "spark.hadoop.fs.s3a.secret.key: abc\ntables: [CREATE TABLE t (a INT)]\n")
    shown = stateplan("sql", "--show-config", "-D", "pipeline.name=x")
    assert shown.code == 0
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in shown.out.splitlines() if "|" in line]
    assert rows == [
        ["key", "value", "source"],
        ["pipeline.name", "x", "-D"],
        ["spark.hadoop.fs.s3a.secret.key", MASK, "stateplan.yaml:1"],
        ["kind", "statement", "source"],
        ["table", "CREATE TABLE t (a INT)", "stateplan.yaml:2"],
    ]
    assert shown.err == "configuration files: stateplan.yaml\n"
    data = json.loads(stateplan("sql", "--show-config", "--format", "json").out)
    assert data["files"] == ["stateplan.yaml"]
    assert data["options"] == [{"key": "spark.hadoop.fs.s3a.secret.key", "value": MASK, "source": "stateplan.yaml:1"}]
    assert data["statements"][0]["kind"] == "table"
    assert "pipeline" not in stateplan("sql", "--show-config", "--no-config").out


def test_a_script_uses_the_configuration(stateplan: Command, home: Path) -> None:
    written(home / "work" / "stateplan.yaml", FILE.replace("metrics.reporters: [a, b]\n", "").replace("0x2", "2"))
    answer = stateplan("sql", "-e", "SHOW TABLES; SHOW CREATE TABLE u;")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[1] for line in answer.out.splitlines() if line.startswith("| ")][1:] == ["t", "u", "v"]
    written(home / "work" / "stateplan.yaml", "tables: [CREATE TABLE t (a IMT)]\n")
    answer = stateplan("sql", "-e", "SHOW TABLES;")
    assert (answer.code, answer.out) == (3, "")
    assert "--> stateplan.yaml, line 1, column 28" in answer.err
