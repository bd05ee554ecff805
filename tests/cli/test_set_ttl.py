"""``stateplan plan set-ttl``: arguments in, one changed line in a file out."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import Command

PLAN = Path(__file__).parent / "data" / "join_plan.json"


@pytest.fixture
def set_ttl(stateplan: Command) -> Command:
    return lambda *args: stateplan("plan", "set-ttl", *args)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    file = tmp_path / "plan.json"
    file.write_bytes(PLAN.read_bytes())
    return file


def changed_lines(old: bytes, new: bytes) -> list[tuple[bytes, bytes]]:
    before, after = old.split(b"\n"), new.split(b"\n")
    return [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]


def test_one_line_of_the_file_changes(set_ttl: Command, plan: Path) -> None:
    assert set_ttl(str(plan), "join.right=1 d") == (0, "join[5].right  rightState  1 h -> 1 d\n", "")
    assert changed_lines(PLAN.read_bytes(), plan.read_bytes()) == [(b'      "ttl" : "1 h",', b'      "ttl" : "1 d",')]


def test_a_dry_run_shows_the_diff_and_writes_nothing(set_ttl: Command, plan: Path) -> None:
    code, out, err = set_ttl(str(plan), "join.right=1 d", "--dry-run")
    assert (code, err) == (0, "join[5].right  rightState  1 h -> 1 d\n")
    assert out.startswith(f"--- {plan}\n+++ {plan}\n@@ ")
    assert '\n-      "ttl" : "1 h",\n+      "ttl" : "1 d",\n' in out
    assert plan.read_bytes() == PLAN.read_bytes()


def test_a_check_ends_with_a_code(set_ttl: Command, plan: Path) -> None:
    assert set_ttl(str(plan), "join.right=1 d", "--check") == (9, "join[5].right  rightState  1 h -> 1 d\n", "")
    assert set_ttl(str(plan), "join.right=60 min", "--check") == (0, "join[5].right  rightState  1 h, unchanged\n", "")
    assert set_ttl(str(plan), "join.right=1 d", "--check", "--dry-run", "-q")[0] == 9
    assert plan.read_bytes() == PLAN.read_bytes()


def test_what_is_so_already_is_left_alone(set_ttl: Command, plan: Path) -> None:
    before = plan.stat().st_mtime_ns
    assert set_ttl(str(plan), "join.right=60 min") == (0, "join[5].right  rightState  1 h, unchanged\n", "")
    assert plan.stat().st_mtime_ns == before
    assert set_ttl(str(plan), "join.right=60 min", "--dry-run", "-q") == (0, "", "")


@pytest.mark.parametrize(
    "bad", ["join=1 d", "jion.left=1 d", "join.left=1 week", "join.left", "join.right=2 h", "join[=1 h"]
)
def test_all_or_none(set_ttl: Command, plan: Path, bad: str) -> None:
    code, out, err = set_ttl(str(plan), "join.right=1 d", bad)
    assert (code, out) == (3 if "=" in bad else 2, "")
    assert err.startswith("error: [PLAN")
    assert plan.read_bytes() == PLAN.read_bytes()


def test_another_file(set_ttl: Command, plan: Path) -> None:
    other = plan.parent / "new" / "edited.json"
    assert set_ttl(str(plan), "join.right=1 d", "-o", str(other))[0] == 0
    assert plan.read_bytes() == PLAN.read_bytes()
    assert len(changed_lines(PLAN.read_bytes(), other.read_bytes())) == 1
    code, _, err = set_ttl(str(plan), "join.right=2 d", "-o", str(other))
    assert code == 3
    assert "PLAN002" in err
    assert set_ttl(str(plan), "join.right=2 d", "-o", str(other), "--overwrite")[0] == 0
    assert b'"2 d"' in other.read_bytes()
    assert set_ttl(str(plan), "join.right=2 d", "--overwrite")[0] == 2


def test_as_a_filter(set_ttl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbf" + PLAN.read_bytes())))
    code, out, err = set_ttl("-", "join.right=1 d")
    assert (code, err) == (0, "join[5].right  rightState  1 h -> 1 d\n")
    assert len(changed_lines(b"\xef\xbb\xbf" + PLAN.read_bytes(), out.encode())) == 1


def test_what_is_no_plan_on_standard_input(set_ttl: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    code, out, err = set_ttl("-", "join.right=1 d")
    assert (code, out) == (3, "")
    assert "<stdin>, line 1" in err


def test_as_json(set_ttl: Command, plan: Path) -> None:
    _, out, err = set_ttl(str(plan), "join.*=1 d", "--format", "json", "--dry-run")
    answer = json.loads(out)
    assert err == ""
    assert (answer["file"], answer["changed"], answer["written"]) == (str(plan), True, False)
    assert answer["diff"].count("\n+ ") == 2
    _, out, _ = set_ttl(str(plan), "join.*=1 d", "--format", "json")
    answer = json.loads(out)
    assert answer["written"]
    assert [(c["state"], c["name"], c["old"], c["new"]) for c in answer["changes"]] == [
        ("join[5].left", "leftState", "1 s", "1 d"),
        ("join[5].right", "rightState", "1 h", "1 d"),
    ]
    code, _, err = set_ttl(str(plan), "jion=1 d", "--format", "json")
    assert code == 3
    assert json.loads(err)["error"]["code"] == "PLAN101"


def test_the_option_of_a_session_counts_for_what_a_plan_does_not_say(set_ttl: Command, plan: Path) -> None:
    data = json.loads(PLAN.read_bytes())
    next(node for node in data["nodes"] if node["id"] == 5)["state"] = None
    plan.write_text(json.dumps(data))
    _, out, _ = set_ttl(str(plan), "join.left=1 d", "-D", "table.exec.state.ttl=2 h")
    assert out.splitlines()[1].startswith(
        "join[5].right  rightState  2 h, now stored in the plan (before: from the session"
    )
    states = next(node for node in json.loads(plan.read_bytes())["nodes"] if node["id"] == 5)["state"]
    assert [state["ttl"] for state in states] == ["1 d", "2 h"]


def test_a_large_plan_needs_no_engine(tmp_path: Path) -> None:
    data = json.loads(PLAN.read_bytes())
    nodes, edges = [], []
    for copy in range(0, 75_000, 1000):
        nodes += [{**node, "id": node["id"] + copy} for node in data["nodes"]]
        edges += [{**e, "source": e["source"] + copy, "target": e["target"] + copy} for e in data["edges"]]
    assert len(nodes) > 500
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({**data, "nodes": nodes, "edges": edges}, indent=2))
    work = (
        "import sys, stateplan.cli.app\n"
        "try: stateplan.cli.app.main(sys.argv[1:])\n"
        "finally: assert not {'pyspark', 'polars', 'pyarrow', 'sqlglot'} & set(sys.modules)\n"
    )
    command = [sys.executable, "-c", work, "plan", "set-ttl", str(file), "50005.left=2 d", "--dry-run"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "join[50005].left  leftState  1 s -> 2 d\n")
