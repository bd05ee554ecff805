"""``stateplan state set-ttl``: what it asks of a checkpoint, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stateplan.cli import app
from stateplan.common.ttl import TtlConfig
from stateplan.plans.document import PlanDocument
from stateplan.runtime.checkpoint.live_ttl import LiveTtls, read_ttls
from stateplan.runtime.checkpoint.locks import locked, writer_lock

PLAN = Path(__file__).parent / "data" / "join_plan.json"
ROOT = Path(__file__).resolve().parents[2]
NO_JOB = "no job is running on {}; the next start applies the TTL\n"
Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def set_ttl(capfd: pytest.CaptureFixture[str]) -> Command:
    def command(*args: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            app.main(["state", "set-ttl", *args])
        assert isinstance(ended.value.code, int)
        return (ended.value.code, *capfd.readouterr())

    return command


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "stateplan.json").write_text("{}")
    (folder / "plan.json").write_bytes(PLAN.read_bytes())
    return folder


def running(folder: Path) -> LiveTtls:
    """What the driver of a job on the checkpoint has of its join."""
    document = PlanDocument.load(str(PLAN))
    (join,) = (n for n in document.graph.nodes if n.title == "join")
    ttls = tuple(TtlConfig(ttl) for ttl in join.ttls())
    operators: Any = [SimpleNamespace(uid=document.uids[join.id], name=f"join[{join.id}]", ttl=ttls)]
    live = LiveTtls(folder, operators, -1, [].append)
    live.begin({o.uid: o.uid for o in operators}, {})
    live.settle()
    return live


def test_a_stopped_job(set_ttl: Command, checkpoint: Path) -> None:
    note = NO_JOB.format(checkpoint)
    line = "join[5].right  rightState  1 h -> 2 h, from the next micro-batch on\n"
    assert set_ttl(str(checkpoint), "join.right=2 h") == (0, line, note)
    again = "join[5].right  rightState  1 h -> 2 h, from the next micro-batch on, already requested\n"
    assert set_ttl(str(checkpoint), "join.right=120 min") == (0, again, note)
    other = "join[5].right  rightState  1 h -> 3 h, not 2 h, from the next micro-batch on\n"
    assert set_ttl(str(checkpoint), "join.right=3 h") == (0, other, note)
    back = "join[5].right  rightState  1 h, unchanged: 3 h is cancelled\n"
    assert set_ttl(str(checkpoint), "join.right=1 h") == (0, back, "")
    assert [s.asked for s in read_ttls(checkpoint).values()] == [None]
    assert set_ttl(str(checkpoint), "join.right=1 h") == (0, "join[5].right  rightState  1 h, unchanged\n", "")


def test_a_running_job_takes_it_in(set_ttl: Command, checkpoint: Path) -> None:
    live, lock, done = running(checkpoint), writer_lock(checkpoint), threading.Event()

    def batches() -> None:
        batch = 0
        while not done.wait(0.02):
            live.take_in(batch)
            batch += 1

    job = threading.Thread(target=batches)
    job.start()
    try:
        code, out, err = set_ttl(str(checkpoint), "join.right=30 min", "join.left=never", "--wait", "--format", "json")
    finally:
        done.set()
        job.join()
        lock.release()
    data = json.loads(out)
    assert code == 0
    assert "rows whose last access is older than the new TTL will expire" in err
    assert (data["running"], data["written"]) == (True, True)
    left, right = data["changes"]
    assert [left["state"], left["new"], right["new"]] == ["join[5].left", "0 ms", "30 min"]
    held = {s.index: s.settings[-1] for s in read_ttls(checkpoint).values()}
    assert (left["since"], right["since"]) == (held[0].since, held[1].since)
    assert held[0].since >= 0
    # what was set is what the next one changes
    assert set_ttl(str(checkpoint), "join.right=40 min", "-q")[1].startswith("join[5].right  rightState  30 min -> 40")


def test_of_two_requests_the_later_one_is_taken_in(checkpoint: Path) -> None:
    from stateplan.plans.live import set_live_ttls, taken_in

    live = running(checkpoint)
    first = set_live_ttls(checkpoint, {"join.right": "2 h"})
    time.sleep(0.002)
    second = set_live_ttls(checkpoint, {"join.right": "3 h", "join.left": "5 h"})
    assert first.changes[0].awaited
    assert taken_in(first).changes[0].overtaken
    assert all(change.awaited for change in taken_in(second).changes)
    live.take_in(0)
    assert [change.since for change in taken_in(second).changes] == [0, 0]
    assert taken_in(first).to_text() == "join[5].right  rightState  1 h -> 2 h, replaced by a later request\n"


def test_who_asked_is_noted(set_ttl: Command, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stateplan.plans.live import ask
    from stateplan.plans.selector_text import parse_assignment

    monkeypatch.setenv("LOGNAME", "ada")
    live = running(checkpoint)
    assert set_ttl(str(checkpoint), "join.right=2 h", "-q")[0] == 0
    ask(checkpoint, [parse_assignment("join.left=3 h")], user_name="grace")
    live.take_in(0)
    left, right = sorted(read_ttls(checkpoint).values(), key=lambda state: state.index)
    assert [(s.by, s.who) for s in left.settings] == [("live", "grace")]
    assert [(s.by, s.who) for s in right.settings] == [("live", "ada")]


def test_a_record_of_before_names_were_noted_is_read(checkpoint: Path) -> None:
    state = {"uid": "u", "index": 0, "name": "join.left", "plan": 5, "settings": [], "asked": {"ttl": 7, "at": 1}}
    (checkpoint / "ttl.json").write_text(json.dumps({"format": 1, "states": [state]}))
    (found,) = read_ttls(checkpoint).values()
    assert found.asked is not None and found.asked.who == ""


def test_a_dry_run_asks_for_nothing(set_ttl: Command, checkpoint: Path) -> None:
    code, out, _ = set_ttl(str(checkpoint), "join.right=2 h", "--dry-run")
    assert (code, out) == (0, "join[5].right  rightState  1 h -> 2 h, from the next micro-batch on\n")
    assert sorted(p.name for p in checkpoint.iterdir()) == ["plan.json", "stateplan.json"]
    assert set_ttl(str(checkpoint), "join.right=2 h", "--dry-run", "--wait")[0] == 2


def test_waiting_in_vain_leaves_the_request(set_ttl: Command, checkpoint: Path) -> None:
    code, out, err = set_ttl(str(checkpoint), "join.right=2 h", "--wait", "--timeout", "0.2")
    assert (code, out) == (4, "")
    assert "[CKPT034] no micro-batch has applied the new TTL of join[5].right in 0.2 s: the job does not run" in err
    assert [s.asked is not None for s in read_ttls(checkpoint).values()] == [True]


@pytest.mark.parametrize(
    ("args", "code", "exit_code", "said"),
    [
        (["nowhere", "join=1 h"], "CKPT001", 4, "No such file"),
        (["chekpoint", "join=1 h"], "CKPT001", 4, "did you mean 'checkpoint'?"),
        ([".", "join=1 h"], "CKPT002", 4, "is not a checkpoint"),
        (["checkpoint", "jion.right=1 h"], "PLAN101", 3, "join"),
        (["checkpoint", "calc=1 h"], "PLAN104", 3, "keeps no state"),
        (["checkpoint", "join.right=1 hx"], "PLAN055", 3, "1 hx"),
        (["checkpoint", "join.right"], "PLAN105", 2, "has no '='"),
        (["checkpoint", "join.right=1 h", "5.1=2 h"], "PLAN106", 3, "two TTLs"),
    ],
)
def test_bad_input(
    args: list[str],
    code: str,
    exit_code: int,
    said: str,
    set_ttl: Command,
    checkpoint: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(checkpoint.parent)
    ended, out, err = set_ttl(*args)
    assert (ended, out) == (exit_code, ""), err
    assert f"[{code}]" in err
    assert said in err
    assert sorted(p.name for p in checkpoint.iterdir()) == ["plan.json", "stateplan.json"]


def test_damage(set_ttl: Command, checkpoint: Path) -> None:
    (checkpoint / "ttl.json").write_text('{"format": 1, "states": 3}')
    code, _, err = set_ttl(str(checkpoint), "join.right=2 h")
    assert code == 4
    assert "[CKPT031]" in err
    assert (checkpoint / "ttl.json").read_text() == '{"format": 1, "states": 3}'
    (checkpoint / "ttl.json").unlink()
    (checkpoint / "plan.json").write_text('{"flinkVersion": "2.3", ')
    code, _, err = set_ttl(str(checkpoint), "join.right=2 h")
    assert code == 4
    assert "[CKPT005]" in err
    assert "line 1" in err


def test_somebody_else_writes(checkpoint: Path) -> None:
    from stateplan.common.errors import CheckpointError
    from stateplan.runtime.checkpoint.live_ttl import editing

    with locked(checkpoint / "ttl.lock", 0), pytest.raises(CheckpointError) as error, editing(checkpoint, 0.05):
        pass
    assert error.value.code == "CKPT033"


def test_no_engine_is_loaded(checkpoint: Path) -> None:
    code = (
        f"import sys; from stateplan.cli.app import main\n"
        f"try: main(['state', 'set-ttl', {str(checkpoint)!r}, 'join.right=2 h'])\nexcept SystemExit: pass\n"
        "assert not {'pyspark', 'polars', 'pyarrow', 'sqlglot'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, cwd=ROOT)
