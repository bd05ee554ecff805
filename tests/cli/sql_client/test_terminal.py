"""The SQL client on a real terminal: every result mode, the prompt, Ctrl-C, jobs in the background, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.gateway.gateway_server import GatewayServer
from tests.support.terminals import Terminal, stateplan

PROMPT = "Stateplan SQL>"
JOB = re.compile(r"Job ID: ([0-9a-f]{32})")
PLAYED = "CREATE TABLE played (x INT) WITH ('connector' = 'replay', 'path' = 'played.json', 'format' = 'json');"
"""It has so many instants that a query over it takes longer than its test, in this process and without Spark."""
COUNTS = "SELECT x, COUNT(*) AS n FROM played GROUP BY x;"
NUMBERS = (
    "CREATE TABLE numbers (x INT) WITH ('connector' = 'datagen', 'rows-per-second' = '10', "
    "'fields.x.min' = '0', 'fields.x.max' = '2');"
)
MODE = "SET 'sql-client.execution.result-mode' = '{}';"

Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts SQL clients in a folder of their own."""
    lines = (json.dumps({"@at": 1000 * i, "x": i % 3}) for i in range(30_000))
    (tmp_path / "played.json").write_text("\n".join(lines))
    started: list[Terminal] = []

    def new(*arguments: str, columns: int = 120, rows: int = 30, **variables: str | None) -> Terminal:
        environment = {
            "HOME": str(tmp_path),
            "XDG_CONFIG_DIRS": str(tmp_path),
            "XDG_CONFIG_HOME": None,
            "NO_COLOR": None,
            "STATEPLAN_HISTORY": None,
            **variables,
        }
        started.append(Terminal(stateplan("sql", *arguments), tmp_path, environment, columns, rows))
        started[-1].until(prompted)
        return started[-1]

    yield new
    for terminal in started:
        terminal.close()
        assert "Traceback" not in terminal.whole
        assert "BUG000" not in terminal.whole


def prompted(text: str) -> bool:
    """Whether the client asks for a statement, perhaps with running jobs below."""
    return re.search(r"Stateplan SQL>\s*(\n \d+ jobs? running.*)?$", text) is not None


def run(shell: Terminal, statement: str, shown: str) -> str:
    """Types a statement, and waits until the client has shown something and asks again; what it shows then."""
    shell.until(prompted)
    before = shell.whole.count(PROMPT)
    shell.type(statement + "\r")

    def done(text: str) -> bool:
        return prompted(text) and shell.whole.count(PROMPT) > before and shown in shell.whole.split(PROMPT)[-2]

    return shell.until(done)


def left(shell: Terminal) -> None:
    """Leaves. What is typed while the client still draws its prompt may be lost, as on every terminal."""
    shell.until(prompted)
    for _ in range(5):
        shell.type("\x04")
        with contextlib.suppress(subprocess.TimeoutExpired):
            shell.process.wait(10)
            break
    assert shell.ended() == 0


def test_commands_and_errors(start: Start, tmp_path: Path) -> None:
    shell = start()
    run(shell, PLAYED, "OK")
    (tmp_path / "views.sql").write_text("CREATE VIEW v AS\nSELECT x FROM played;\nSHOW VIEWS;\n")
    run(shell, "SOURCE 'views.sql';", "1 row in set")
    run(shell, "!echo from the system", "from the system")
    run(shell, "HELP STOP JOB;", "WITH SAVEPOINT")
    run(shell, "DESCRIBE v;", "INT")
    shown = run(shell, "SELECT\r1 FRM x;", "did you mean 'FROM'?")
    assert "  --> line 2, column 7\n  1 FRM x;\n" in shown
    shell.type("SHOW FUNCTIONS;\r")
    shell.until(lambda text: text.endswith("\n:"))  # the pager
    shell.type("q")
    left(shell)
    assert "from the system" in (tmp_path / ".stateplan_history").read_text()


def counts(text: str) -> dict[str, int]:
    """The rows of the query COUNTS on the screen."""
    return {x: int(n) for x, n in re.findall(r"^ +([012]) +(\d+)$", text, re.M)}


def test_a_table_is_kept_up_to_date(start: Start) -> None:
    shell = start()
    run(shell, PLAYED, "OK")
    shell.type(COUNTS + "\r")
    shown = shell.until(lambda text: len(counts(text)) == 3)
    lines = shown.splitlines()
    assert lines[0].strip() == "SQL Query Result"
    assert lines[1].startswith(" Table: refresh 1 s")
    assert (lines[3].split(), lines[4].split()) == (["x", "n"], ["INT", "BIGINT", "NOT", "NULL"])
    assert list(counts(shown)) == ["0", "1", "2"]
    shell.until(lambda text: all(n > counts(shown)[x] for x, n in counts(text).items()) and len(counts(text)) == 3)
    shell.type("s\r")
    shell.until("Q Back")
    shell.type("q")
    shell.until("Q Quit")
    shell.type("q")
    shell.until("The query was stopped.")
    # rows come and go again
    shell.type("SELECT x, COUNT(*) AS n FROM played GROUP BY x HAVING MOD(COUNT(*), 2) = 1;\r")
    seen = set()

    def all_seen(text: str) -> bool:
        if "updated" in text:
            seen.add(len(counts(text)))
        return len(seen) > 1

    shell.type("----")  # refreshes more often
    shell.until(all_seen)
    shell.type("\x03")
    shell.until(prompted)
    left(shell)


def test_a_changelog_and_line_by_line(start: Start) -> None:
    shell = start()
    run(shell, PLAYED, "OK")
    run(shell, MODE.format("changelog"), "OK")
    shell.type(COUNTS + "\r")
    shown = shell.until(lambda text: " -U " in text and " +U " in text)
    assert shown.splitlines()[1].startswith(" Changelog: refresh Fastest")
    assert shown.splitlines()[3].split() == ["op", "x", "n"]
    shell.type("\x03")
    shell.until("The query was stopped.")
    run(shell, MODE.format("tableau"), "OK")
    assert "\n|  1.50 |\n" in run(shell, "SELECT 1.50 AS x;", "Received a total of 1 row")
    shell.type(COUNTS + "\r")
    shell.until("| +U |")
    shell.type("\x03")
    shown = shell.until(prompted)
    assert re.search(r"\n(\^C)?The query was stopped\. Received a total of \d+ rows\nStateplan SQL>", shown)
    run(shell, "SHOW JOBS;", "Empty set")
    left(shell)


def test_typing(start: Start, tmp_path: Path) -> None:
    (tmp_path / "edit").write_text('#!/bin/sh\necho "SELECT \'from the editor\' AS x;" > "$1"\n')
    (tmp_path / "edit").chmod(0o755)
    shell = start(EDITOR=str(tmp_path / "edit"), VISUAL=None)
    run(shell, PLAYED, "OK")
    run(shell, MODE.format("tableau"), "OK")
    # several lines, of which an earlier one is changed
    shell.type("SELECT 'one'\rAS a")
    shell.until("\n             > AS a")
    shell.type("\x1b[A\x05 || ' two'\x1b[B\x05;\r")
    shell.until("one two |")
    # completion
    shell.until(prompted)
    shell.type("DESCRIBE pla\t")
    shell.until("DESCRIBE played")
    shell.type(";\r")
    shell.until(lambda text: "1 row in set" in text and prompted(text))
    # what is typed is dropped
    shell.type("SELECT 'half\x03")
    shell.until(lambda text: prompted(text) and "SELECT 'half" in text)
    # the editor, after which the statement runs
    shell.type("\x18\x05")
    shell.until("|                from the editor |")
    left(shell)
    # the history of another client: statements, each whole
    shell = start()
    shell.type("\x12one'")
    shell.until("AS a;")
    shell.type("\r")
    shell.until("Stateplan SQL> SELECT 'one' || ' two'\n             > AS a;")
    shell.type("\x03")
    shell.until(prompted)
    shell.type("\x1b[A")
    shell.until("Stateplan SQL> SELECT 'from the editor' AS x;")
    shell.type("\x03")
    left(shell)


def test_no_color(start: Start) -> None:
    plain, coloured = start(NO_COLOR="1"), start()
    for shell in (plain, coloured):
        run(shell, "SELECT nothing;", "error:")
        shell.type("SELECT 'a'")
        shell.until("SELECT 'a'")
    assert plain.colours == {"default"}
    assert {"red", "blue", "green"} <= coloured.colours


def test_a_narrow_terminal(start: Start) -> None:
    shell = start(columns=40, rows=12)
    run(shell, PLAYED, "OK")
    shell.type(COUNTS + "\r")
    lines = shell.until(lambda text: len(counts(text)) == 3).splitlines()
    assert lines[1].startswith(" Table: refresh 1 s")
    assert lines[-2].startswith("Q Quit")
    shell.resize(100, 25)
    shell.until(lambda text: "BIGINT NOT NULL" in text and "Select Row" in text)
    shell.resize(20, 5)
    shell.until(lambda text: len(text.splitlines()) == 5 and text.splitlines()[-1].startswith("R Refresh"))
    shell.resize(60, 12)
    shell.until("Table: refresh 1 s")
    shell.type("q")
    shell.until("The query was stopped.")
    run(shell, MODE.format("tableau"), "OK")
    assert re.search(r"^\| +1 \|$", run(shell, "SELECT 1 AS x;", "1 row"), re.M)
    left(shell)


def test_a_gateway(start: Start, tmp_path: Path) -> None:
    server = GatewayServer(tmp_path / "gateway")
    try:
        shell = start("--endpoint", server.url)
        run(shell, PLAYED.replace("played.json", str(tmp_path / "played.json")), "OK")
        shell.type(COUNTS + "\r")
        before = counts(shell.until(lambda text: len(counts(text)) == 3))
        shell.until(lambda text: counts(text).get("2", 0) > before["2"])
        shell.type("q")
        shell.until("The query was stopped.")
        run(shell, MODE.format("tableau"), "OK")
        shell.type(COUNTS + "\r")
        shell.until("| +U |")
        shell.type("\x03")
        shell.until(prompted)
        run(shell, "SHOW JOBS;", "CANCELED")
        shown = run(shell, "SELECT\r1 FRM x;", "did you mean 'FROM'?")
        assert "  --> line 2, column 7\n  1 FRM x\n" in shown, shown
        shell.type("DESCRIBE pla\t")
        shell.until("DESCRIBE played")
        shell.type("\x03")
        left(shell)
    finally:
        server.stop()


@pytest.mark.spark
def test_jobs_in_the_background(start: Start, tmp_path: Path) -> None:
    shell = start(columns=160)
    run(shell, NUMBERS, "OK")
    run(shell, "CREATE TABLE printed (x INT) WITH ('connector' = 'print');", "OK")
    run(shell, "INSERT INTO printed SELECT x FROM numbers;", "Job ID: ")
    found = JOB.search(shell.text)
    assert found is not None
    job = found[1]
    shell.until(f"1 job running: {job}")

    # what it prints stands above the prompt, and does not disturb what is typed
    shell.type("SELECT 'half")
    below = re.compile(rf"\+I\[[012]\]\nStateplan SQL> SELECT 'half\n+ 1 job running: {job}$")
    shell.until(lambda text: len(re.findall(r"^\+I\[[012]\]$", text, re.M)) > 3 and below.search(text) is not None)
    shell.type("\x03")
    shell.until(prompted)

    # a query meanwhile; what the job prints comes after it
    run(shell, PLAYED, "OK")
    shell.type(COUNTS + "\r")
    assert "+I[" not in shell.until(lambda text: len(counts(text)) == 3)
    shell.type("q")
    shown = run(shell, "SHOW JOBS;", "in set")
    assert re.search(rf"\| {job} \| insert-into_\S+printed \| RUNNING \|", shown), shown
    run(shell, f"STOP JOB '{job}';", "OK")
    shell.until(f"job {job} canceled")
    shell.until(lambda text: "1 job running" not in text)

    # jobs that end: by themselves, and of an error
    run(shell, "INSERT INTO printed VALUES (7);", "Job ID: ")
    shell.until("+I[7]")
    ended = JOB.findall(shell.whole)[-1]
    shell.until(f"job {ended} finished")
    run(shell, "INSERT INTO printed SELECT CAST('a' AS INT) FROM numbers;", "Job ID: ")
    ended = JOB.findall(shell.whole)[-1]
    shell.until(lambda text: re.search(rf"job {ended} failed: \[DATA301\]", text) is not None)

    # a job that is waited for
    run(shell, "CREATE TABLE nowhere (x INT) WITH ('connector' = 'blackhole');", "OK")
    run(shell, "SET 'table.dml-sync' = 'true';", "OK")
    shell.type("INSERT INTO nowhere SELECT x FROM numbers;\r")
    shell.until(lambda text: re.search(r"\nbatch \d+ \(.*rows in", text) is not None)
    shell.type("\x03")
    shell.until(lambda text: "stopped: batch" in text and prompted(text))

    # leaving while a job runs
    run(shell, "RESET 'table.dml-sync';", "OK")
    run(shell, "INSERT INTO nowhere SELECT x FROM numbers;", "Job ID: ")
    shell.type("\x04")
    shell.until("1 job runs in this process and stops when you leave")
    shell.type("\r")
    run(shell, "SHOW TABLES;", "4 rows in set")
    os.kill(shell.process.pid, signal.SIGTERM)
    assert shell.ended(120) == 143
    assert shell.text.splitlines()[-1].startswith("stopped: ")
