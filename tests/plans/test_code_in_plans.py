"""A plan names functions, classes, connectors and node types. Whatever they are called, to read it imports none."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stateplan.session.environment import TableEnvironment
from tests.runtime.join_checkpoints import JOIN, checkpoint
from tests.support.canary import Canary
from tests.support.plan_checks import COMMANDS, fill, run_command, selector

FROZEN = Path(__file__).parents[1] / "frozen"


def originals() -> list[str]:
    found = [path.read_text() for path in sorted(FROZEN.glob("stream-exec-python-*/*.json"))]
    found += [path.read_text() for path in sorted(FROZEN.glob("stream-exec-process-table-function_1/*.json"))]
    return found


def hostile(text: str, module: str) -> Iterator[str]:
    """The plan with the module wherever it has a name of something."""
    names = [f"{module}.f", f"`c`.`d`.`{module}.f`", f"{module}:f", module]
    for key in ("systemName", "catalogName", "class", "name", "connector", "format", "type", "internalName"):
        for name in names:
            data = json.loads(text)
            if _put(data, key, name):
                yield json.dumps(data, indent=2)
    data = json.loads(text)
    _call(data, module)
    yield json.dumps(data, indent=2)


def _put(data: Any, key: str, name: str) -> bool:
    """Writes ``name`` as every value of ``key``; whether there was one."""
    if isinstance(data, list):
        return sum(_put(one, key, name) for one in data) > 0
    if not isinstance(data, dict):
        return False
    there = isinstance(data.get(key), str)
    if there:
        data[key] = f"stream-exec-{name}_1" if key == "type" and data[key].startswith("stream-exec-") else name
    return sum(_put(one, key, name) for one in data.values()) > 0 or there


def _call(data: Any, module: str) -> None:
    """Makes every call one of a class of Java, as Flink writes functions that are given in line."""
    if isinstance(data, dict):
        if data.get("kind") == "CALL":
            data["class"] = f"{module}.Bird"
        data = list(data.values())
    if isinstance(data, list):
        for one in data:
            _call(one, module)


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Canary:
    return Canary(tmp_path, monkeypatch)


def test_no_command_that_reads_a_plan_imports_what_it_names(canary: Canary, tmp_path: Path) -> None:
    read = 0
    for number, text in enumerate(originals()[::4]):
        plans = list(hostile(text, canary.name))
        for plan in plans[::2] if number < 1 else plans[:: len(plans) - 1]:
            (tmp_path / "plan.json").write_text(plan)
            (tmp_path / "old.json").write_text(text)
            for command, ways in COMMANDS.items():
                for arguments in ways:
                    code, _, err = run_command(command, *fill(arguments, tmp_path, selector(plan)))
                    assert not canary.sang, (command, plan)
                    assert code < 70, (command, err)
                    read += code == 0
    assert read > 100


def test_no_statement_that_reads_a_plan_imports_what_it_names(canary: Canary, tmp_path: Path) -> None:
    environment = TableEnvironment.create()
    path = tmp_path / "plan.json"
    done = 0
    for plan in (plan for text in originals()[:4] for plan in hostile(text, canary.name)):
        path.write_text(plan)
        for statement in (
            f"EXPLAIN PLAN '{path}'",
            f"EXPLAIN PLAN CHANGELOG_MODE, PLAN_ADVICE, JSON_EXECUTION_PLAN '{path}'",
            f"ALTER PLAN '{path}' SET TTL '1 h' FOR `{selector(plan)}`",
        ):
            try:
                environment.execute_sql(statement)
                done += 1
            except Exception as refused:
                assert hasattr(refused, "code"), refused
            assert not canary.sang, (statement, plan)
    assert done > 20


def test_a_checkpoint_whose_plan_names_a_module(canary: Canary, tmp_path: Path) -> None:
    """Its figures need Spark; that its plan is read comes before."""
    from stateplan.plans.state import CheckpointReader

    folder = tmp_path / "checkpoint"
    folder.mkdir()
    query = ("a STRING, b INT", "SELECT customer, spread(id) FROM Orders GROUP BY customer")
    checkpoint(folder, JOIN, query)
    hashed = hashlib.sha256((folder / "plan.json").read_bytes()).hexdigest()[:16]
    text = (folder / "plan.json").read_text().replace("spread", f"{canary.name}.f").replace("blackhole", canary.name)
    facts = (folder / "stateplan.json").read_text()
    assert hashed in facts
    (folder / "plan.json").write_text(text)
    (folder / "stateplan.json").write_text(facts.replace(hashed, hashlib.sha256(text.encode()).hexdigest()[:16]))
    reader = CheckpointReader.read(folder)
    assert [s.selector for s in reader.states][:2] == ["join.left", "join.right"]
    assert not canary.sang
