"""What plan commands say to arguments, files and streams that they cannot use."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stateplan.cli.app import app
from tests.conftest import ROOT
from tests.support.plan_checks import run_command

PLAN = ROOT / "tests/plans/data/join/plan.json"
READERS = (
    ("show", "{}"),
    ("explain", "{}"),
    ("explain", "{}", "--format", "html"),
    ("diff", "{}", "plan.json"),
    ("diff", "plan.json", "{}"),
    ("lint", "{}"),
    ("lint", "plan.json", "--against", "{}"),
    ("set-ttl", "{}", "join.left=1 d"),
    ("migrate", "{}", "--dry-run"),
    ("rebase", "--ours", "{}", "--theirs", "plan.json", "--dry-run"),
)
"""Commands, with the place of a plan to read."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory: a good plan, and what is no plan."""
    monkeypatch.chdir(tmp_path)
    Path("plan.json").write_bytes(PLAN.read_bytes())
    Path("empty.json").touch()
    Path("script.sql").write_text("SELECT 1;")
    Path("utf16.json").write_bytes(PLAN.read_text().encode("utf-16"))
    Path("loop.json").symlink_to("loop.json")
    Path("dir").mkdir()
    return tmp_path


@pytest.mark.parametrize("command", READERS, ids=["-".join(c).replace("{}", "PLAN") for c in READERS])
@pytest.mark.parametrize(
    ("path", "code"),
    [
        ("nofile.json", "PLAN001"),
        ("dir", "PLAN003|PLAN120|PLAN137"),
        ("plan.json/x", "PLAN003"),
        ("empty.json", "PLAN010"),
        ("script.sql", "PLAN011"),
        ("utf16.json", "PLAN017"),
        ("loop.json", "PLAN008"),
        ("", "PLAN008"),
        ("s4://bucket/plan.json", "PLAN006"),
        ("memory://nothing/plan.json", "PLAN001"),
    ],
)
def test_what_is_no_plan_is_refused_by_all(command: tuple[str, ...], path: str, code: str) -> None:
    status, out, err = run_command(*[part.format(path) for part in command])
    assert status == 3, err
    assert any(f"[{one}]" in err for one in code.split("|")), err
    assert not out
    assert Path("plan.json").read_bytes() == PLAN.read_bytes()
    assert sorted(os.listdir()) == sorted(["plan.json", "empty.json", "script.sql", "utf16.json", "loop.json", "dir"])


@pytest.mark.parametrize("command", ["show", "explain", "lint", "migrate"])
def test_an_error_is_json_on_standard_error_when_the_result_would_be(command: str) -> None:
    more = ["--dry-run"] if command == "migrate" else []
    status, out, err = run_command(command, "nofile.json", "--format", "json", *more)
    assert (status, out) == (3, "")
    error = json.loads(err)["error"]
    assert error["code"] == "PLAN001"
    assert error["place"]["file"] == "nofile.json"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_told_from_a_missing_one() -> None:
    os.chmod("plan.json", 0)
    status, _, err = run_command("show", "plan.json")
    assert status == 3
    assert "[PLAN004]" in err


def test_a_device_that_never_ends_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stateplan.plans.storage.MAX_BYTES", 1 << 20)
    status, _, err = run_command("show", "/dev/zero")
    assert status == 3
    assert "[PLAN009] '/dev/zero' is longer than 1 MiB" in err


@pytest.mark.parametrize("command", ["show", "explain", "lint", "migrate", "diff"])
def test_a_plan_on_standard_input(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(PLAN.read_bytes())))
    more = {"migrate": ["--dry-run"], "diff": ["plan.json"]}.get(command, [])
    status, out, err = run_command(command, "-", *more)
    assert status == 0, err
    assert out or "nothing found in 1 plan" in err


def test_standard_input_is_not_fixed() -> None:
    status, _, err = run_command("lint", "-", "--fix")
    assert status == 2
    assert "standard input cannot be changed" in err
    assert not Path("-").exists()
    assert not Path("<stdin>").exists()


@pytest.mark.parametrize(
    "command",
    [
        ("set-ttl", "plan.json", "join.left=1 d"),
        ("migrate", "plan.json"),
        ("rebase", "--base", "plan.json", "--ours", "plan.json", "--theirs", "plan.json"),
    ],
)
@pytest.mark.parametrize(
    ("target", "code", "part"),
    [
        ("empty.json", "PLAN002", "--overwrite replaces it"),
        ("dir", "PLAN003", "is a directory"),
        ("plan.json/new.json", "PLAN003", "is a file, not a directory"),
        ("/proc/nothing/new.json", "PLAN007", "could not be written"),
        ("s4://bucket/new.json", "PLAN006", "unknown file scheme"),
        ("", "PLAN008", "is empty"),
    ],
)
def test_a_target_that_cannot_be_written(command: tuple[str, ...], target: str, code: str, part: str) -> None:
    status, _, err = run_command(*command, "-o", target)
    assert status == 3, err
    assert f"[{code}]" in err
    assert part in err
    assert Path("plan.json").read_bytes() == PLAN.read_bytes()
    assert Path("empty.json").read_bytes() == b""


def test_a_drawing_does_not_go_into_a_device() -> None:
    status, _, err = run_command("explain", "plan.json", "--format", "svg", "-o", "/dev/zero")
    assert status == 3
    assert "is not a regular file" in err


def process(redirection: str, *args: str) -> subprocess.CompletedProcess[str]:
    """A fresh process of the command, as a shell starts it."""
    line = f'"$0" -m stateplan plan "$@" {redirection}'
    return subprocess.run(
        ["sh", "-c", line, sys.executable, *args],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("args", [("show", "plan.json"), ("set-ttl", "plan.json", "join.left=1 d", "-o", "-")])
def test_a_full_disk_is_told(args: tuple[str, ...]) -> None:
    done = process("> /dev/full", *args)
    assert done.returncode == 1
    assert "[RUN090] standard output cannot be written: no space left on device" in done.stderr
    assert len(done.stderr.splitlines()) <= 3


def test_closed_streams_are_no_bugs() -> None:
    done = process(">&-", "show", "plan.json")
    assert done.returncode == 1
    assert "[RUN090] standard output is closed" in done.stderr
    assert process("2>&-", "show", "plan.json").stdout == process("", "show", "plan.json").stdout
    assert process("2>&-", "show", "nofile.json").returncode == 3


def test_help_on_a_full_disk_and_for_a_reader_that_goes_away() -> None:
    done = process("--help > /dev/full")
    assert done.returncode == 1
    assert "[RUN090] standard output cannot be written" in done.stderr and "Traceback" not in done.stderr
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "stateplan", "--help"]
    ended = subprocess.run(command, cwd=ROOT, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (ended.returncode, ended.stderr) == (141, b"")


def test_numbers_of_closed_standard_files_are_not_given_to_other_files() -> None:
    script = "import os; from stateplan.cli.console import open_standard_files; open_standard_files(); "
    script += (
        "assert os.open('/', os.O_RDONLY) > 2; import sys; assert sys.stdin.read() == ''; assert sys.stdout is None"
    )
    line = f'"{sys.executable}" -c "{script}" <&- >&- 2>&-'
    assert subprocess.run(["sh", "-c", line], cwd=ROOT, check=False).returncode == 0


def test_a_reader_that_goes_away_is_no_error() -> None:
    done = process("--format json | true; exit ${PIPESTATUS:-0}", "explain", "plan.json")
    assert done.stderr == ""


def test_text_that_the_terminal_cannot_show_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = json.loads(PLAN.read_text())
    plan["nodes"][0]["description"] = "Quelle für ключ"
    Path("plan.json").write_text(json.dumps(plan))
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    done = process("", "explain", "plan.json")
    assert done.returncode == 0, done.stderr
    assert r"Quelle f\xfcr \u043a\u043b\u044e\u0447" in done.stdout


@pytest.mark.parametrize(
    ("command", "ends"),
    [
        (("plan", "explain"), ".txt, .json, .mmd, .mermaid, .svg, .html or .htm"),
        (("plan", "schema"), ".json"),
        (("state", "read"), ".txt, .parquet, .json, .jsonl or .ndjson"),
        (("state", "show"), "FILE.svg"),
    ],
)
def test_the_help_names_the_extensions_of_files(command: tuple[str, ...], ends: str) -> None:
    answer = CliRunner().invoke(app, [*command, "-h"])
    assert ends in " ".join(answer.stdout.split())
