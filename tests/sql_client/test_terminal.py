"""The shell on a real terminal: every result mode, completion, Ctrl-C, jobs in the background, and how it ends."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.terminals import Terminal, stateplan

NUMBERS = (
    "CREATE TABLE numbers (x INT, word STRING) WITH ('connector' = 'datagen', 'rows-per-second' = '10', "
    "'fields.x.min' = '0', 'fields.x.max' = '2', 'fields.word.length' = '3');"
)
COUNTS = "SELECT x, COUNT(*) AS n FROM numbers GROUP BY x;"
NOWHERE = "CREATE TABLE nowhere (x INT) WITH ('connector' = 'blackhole');"
PROMPT = "Stateplan SQL>"
JOB = re.compile(r"Job ID: ([0-9a-f]{32})")


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    """The shell in a folder of its own."""
    terminal = Terminal(stateplan("sql"), tmp_path, {"HOME": str(tmp_path), "XDG_CONFIG_DIRS": str(tmp_path)})
    yield terminal
    terminal.close()


def prompted(text: str) -> bool:
    """Whether the shell asks for a statement, perhaps with running jobs below."""
    return re.search(r"Stateplan SQL>\s*(\n \d+ jobs? running.*)?$", text) is not None


def run(shell: Terminal, statement: str, shown: str) -> str:
    """Types a statement, and waits until the shell has shown something and asks again; what it shows then."""
    shell.until(prompted)
    before = shell.whole.count(PROMPT)
    shell.type(statement + "\r")

    def done(text: str) -> bool:
        return prompted(text) and shell.whole.count(PROMPT) > before and shown in shell.whole.split(PROMPT)[-2]

    return shell.until(done)


def test_no_spark_without_a_job(shell: Terminal, tmp_path: Path) -> None:
    run(shell, NUMBERS, "OK")
    (tmp_path / "views.sql").write_text("CREATE VIEW v AS\nSELECT x FROM numbers;\nSHOW VIEWS;\n")
    run(shell, "SOURCE 'views.sql';", "1 row in set")
    run(shell, "!echo from the system", "from the system")
    run(shell, "HELP STOP JOB;", "WITH SAVEPOINT")
    run(shell, "DESCRIBE v;", "INT")
    shown = run(shell, "SELECT\r1 FRM x;", "did you mean 'FROM'?")
    assert "  --> line 2, column 7\n  1 FRM x;\n" in shown
    shell.type("SELECT word\rFROM num\t")
    shell.until("FROM default_catalog.default_database.numbers")
    shell.type("\x03")
    shell.type("SEL\x03")
    shell.type("SHOW FUNCTIONS;\r")
    shell.until(lambda text: text.endswith("\n:"))  # the pager
    shell.type("q")
    shell.until(prompted)
    shell.type("\x04")
    assert shell.ended() == 0
    assert "Traceback" not in shell.whole
    assert "from the system" in (tmp_path / ".stateplan_history").read_text()
    assert "+SELECT\n+1 FRM x;\n" in (tmp_path / ".stateplan_history").read_text()


@pytest.mark.spark
def test_results_and_jobs(shell: Terminal) -> None:
    run(shell, NUMBERS, "OK")
    run(shell, NOWHERE, "OK")

    # a table that is kept up to date
    shell.type(COUNTS + "\r")
    shown = shell.until(lambda text: len(re.findall(r"\n +[012] +\d+", text)) == 3)
    lines = shown.splitlines()
    assert lines[0].strip() == "SQL Query Result"
    assert (lines[3].split(), lines[4].split()) == (["x", "n"], ["INT", "BIGINT", "NOT", "NULL"])
    assert {line.split()[0] for line in lines[5:8]} == {"0", "1", "2"}
    first = sum(int(line.split()[1]) for line in lines[5:8])
    shell.until(lambda text: sum(int(line.split()[1]) for line in text.splitlines()[5:8]) > first)
    shell.type("s\r")
    shell.until("Q Back")
    shell.type("q")
    shell.until("Q Quit")
    shell.type("q")
    shell.until("The query was stopped.")

    # the last changes
    run(shell, "SET 'sql-client.execution.result-mode' = 'changelog';", "OK")
    shell.type(COUNTS + "\r")
    shell.until(lambda text: " op " in text and " +U " in text)
    shell.type("\x03")

    # line by line
    run(shell, "SET 'sql-client.execution.result-mode' = 'tableau';", "OK")
    shell.type(COUNTS + "\r")
    shell.until("| +U |")
    shell.type("\x03")
    assert "The query was stopped. Received a total of" in shell.until(prompted)

    # jobs in the background
    run(shell, "INSERT INTO nowhere SELECT x FROM numbers;", "Job ID: ")
    found = JOB.search(shell.text)
    assert found is not None
    job = found[1]
    shell.until(f"1 job running: {job}")
    shell.type("SELECT 'half\x03")
    shell.until(prompted)
    shell.type(COUNTS + "\r")
    shell.until(lambda text: "| +U |" in text.rpartition("Job ID")[2])
    shell.type("\x03")
    shown = run(shell, "SHOW JOBS;", "rows in set")
    assert re.search(rf"\| {job} \|.*\|  RUNNING \|", shown.replace("\n", "")), shown
    run(shell, f"STOP JOB '{job}';", "OK")
    shell.until(f"job {job} canceled")
    shell.until(lambda text: "1 job running" not in text)

    # a job that is waited for
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
    run(shell, "SHOW TABLES;", "2 rows in set")
    shell.type("QUIT;\r")
    shell.until(lambda text: text.count("Leave? [y/N]") == 2)
    shell.type("y\r")
    assert shell.ended(120) == 0
    assert shell.text.splitlines()[-1].startswith("stopped: ")
    assert "Traceback" not in shell.whole


@pytest.mark.spark
def test_sigterm_stops_the_jobs(shell: Terminal) -> None:
    run(shell, NUMBERS, "OK")
    run(shell, NOWHERE, "OK")
    run(shell, "INSERT INTO nowhere SELECT x FROM numbers;", "Job ID: ")
    os.kill(shell.process.pid, signal.SIGTERM)
    assert shell.ended(120) == 143
    assert "stopped: " in shell.whole
    assert "Traceback" not in shell.whole
