"""What Flink says about scripts: their plans, and the rows of their jobs, many of them in one job.

A folder has a script and its input, as ``tests/support/cases.py`` describes them. Flink's answer is put beside them:
``plan.json`` and ``changelog.txt``; or ``refused.txt`` where it does not compile, ``failed.txt`` where the job fails.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOGETHER = 10
"""Plans in one job. A job starts in a second or two, and has little memory for the exchanges between operators."""


def ask(oracle: Any, folders: Sequence[Path], rows: bool) -> None:
    """Has Flink answer about scripts that have no answer yet: their plans, and with ``rows`` their rows."""
    # Rows do not wait for the rows of other tables: the scripts have one result in whatever order tables are read.
    oracle.cmd("GATE", "off")
    for folder in folders:
        if not answered(folder, "plan.json", "refused.txt"):
            _compile(oracle, folder)
    if not rows:
        return
    open_ = [f for f in folders if not answered(f, "changelog.txt", "failed.txt", "refused.txt")]
    for at in range(0, len(open_), TOGETHER):
        group = open_[at : at + TOGETHER]
        if not _run(oracle, group):
            for folder in group:
                if not _run(oracle, [folder]):
                    (folder / "failed.txt").write_text((folder / "error.txt").read_text())


def answered(folder: Path, *names: str) -> bool:
    """Whether ``folder`` has one of these files."""
    return any((folder / name).exists() for name in names)


def _compile(oracle: Any, folder: Path) -> None:
    script = (folder / "script.sql").read_text().replace("${DIR}", str(folder))
    with tempfile.TemporaryDirectory(prefix="stateplan-flink-") as name:
        given, told = Path(name) / "compile.sql", Path(name) / "told.txt"
        given.write_text(re.sub(r"(?m)^INSERT", f"COMPILE PLAN 'file://{folder}/plan.json' FOR INSERT", script))
        good, message = oracle.cmd("SQL", str(given), str(told))
        if not good:
            raise RuntimeError(message)
        # This command switches the gate on when it ends.
        oracle.cmd("GATE", "off")
        if not (folder / "plan.json").exists():
            (folder / "refused.txt").write_text(told.read_text().partition("ERROR ")[2].strip())


def _run(oracle: Any, folders: Sequence[Path]) -> bool:
    """Runs compiled plans as one job, and whether it succeeds. Where it does not, the folders have ``error.txt``."""
    nodes: list[dict[str, Any]] = []
    edges: list[dict[str, Any]] = []
    head: dict[str, Any] = {}
    for folder in folders:
        plan = json.loads((folder / "plan.json").read_text())
        head = {key: value for key, value in plan.items() if key not in ("nodes", "edges")}
        number = {node["id"]: len(nodes) + i for i, node in enumerate(plan["nodes"], 1)}
        for node in plan["nodes"]:
            if "dynamicTableSink" in node:
                node["dynamicTableSink"]["table"]["resolvedTable"]["options"]["print-identifier"] = folder.name
            nodes.append({**node, "id": number[node["id"]]})
        edges += [{**e, "source": number[e["source"]], "target": number[e["target"]]} for e in plan["edges"]]
    with tempfile.TemporaryDirectory(prefix="stateplan-flink-") as name:
        plan_file, script = Path(name) / "plan.json", Path(name) / "script.sql"
        plan_file.write_text(json.dumps({**head, "nodes": nodes, "edges": edges}))
        script.write_text("EXECUTE PLAN 'x';")
        good, message = oracle.cmd("EXEC", str(plan_file), str(script), name)
        lines = (Path(name) / "changelog.txt").read_text().splitlines() if good else []
    for folder in folders:
        if good:
            prefix = f"{folder.name}> "
            own = [line.removeprefix(prefix) for line in lines if line.startswith(prefix)]
            (folder / "changelog.txt").write_text("".join(f"{line}\n" for line in own))
        else:
            (folder / "error.txt").write_text(str(message))
    return bool(good)
