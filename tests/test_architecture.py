"""The rules of the house that a reader relies on: who imports whom, what starts fast, how long a file is."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.job_records import job_checkpoint

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("execnodes", "plans", "planner", "cli")
"""Each package may import itself and those before it."""

SPARK_FOLDERS = ("execnodes/runtime/", "execnodes/connectors/")
SPARK_FREE_FOLDERS = ("execnodes/runtime/kernels/", "execnodes/connectors/formats/")
HEAVY = ("pyspark", "polars", "sqlglot", "pandas", "pyarrow", "numpy")

PLAN = ROOT / "tests" / "cli" / "data" / "join_plan.json"

MAX_LINES = 600
LONG_FILES: dict[str, str] = {}
"""File -> why it is one room all the same."""

SKIPPED = {".git", ".venv", "build", "dist", "__pycache__", "data", "out"}


def python_files() -> list[Path]:
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in SKIPPED and not f.endswith(".egg-info")]
        found += [Path(folder, f) for f in files if f.endswith(".py")]
    return sorted(found)


def package_files() -> list[str]:
    names = (p.relative_to(ROOT).as_posix() for p in python_files())
    return [n for n in names if n.split("/")[0] in LAYERS]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import statement, those inside functions included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the whole module name"
            yield node.lineno, node.module or ""


def test_imports_point_one_way() -> None:
    wrong = []
    for name in package_files():
        layer = LAYERS.index(name.split("/")[0])
        for line, module in imports(ROOT / name):
            root, _, inside = module.partition(".")
            top = inside.split(".")[0]
            if root in LAYERS or (root == "stateplan" and (top not in LAYERS or LAYERS.index(top) > layer)):
                wrong.append(f"{name}:{line} imports {module}")
    assert not wrong, "\n".join(wrong)


def test_only_the_runtime_and_connectors_import_pyspark() -> None:
    wrong = [
        f"{name}:{line}"
        for name in package_files()
        for line, module in imports(ROOT / name)
        if module.split(".")[0] == "pyspark"
        and (not name.startswith(SPARK_FOLDERS) or name.startswith(SPARK_FREE_FOLDERS))
    ]
    assert not wrong, "\n".join(wrong)


def loaded_by(code: str) -> list[str]:
    """The heavy packages that running ``code`` in a fresh interpreter loads."""
    script = f"import sys\n{code}\nprint(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [m for m in HEAVY if m in done.stderr.splitlines()[-1].split()]


def test_import_of_plans_and_cli_is_light() -> None:
    assert loaded_by("import stateplan.plans, stateplan.cli.app") == []


@pytest.mark.parametrize("command", ["show", "explain", "lint"])
def test_reading_a_plan_loads_nothing_heavy(command: str) -> None:
    code = f"""
from stateplan.cli.app import main
try:
    main(["plan", {command!r}, {str(PLAN)!r}])
except SystemExit as e:
    assert not e.code, e.code
"""
    assert loaded_by(code) == []


@pytest.mark.parametrize("command", ["top", "metrics"])
def test_looking_at_a_job_loads_nothing_heavy(command: str, tmp_path: Path) -> None:
    code = f"""
from stateplan.cli.app import main
try:
    main(["job", {command!r}, {str(job_checkpoint(tmp_path))!r}])
except SystemExit as e:
    assert not e.code, e.code
"""
    assert loaded_by(code) == []


def processor_time(*arguments: str) -> float:
    """Of a whole Python process, in seconds; best of three."""
    best = 60.0
    for _ in range(3):
        before = sum(os.times()[2:4])
        subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        best = min(best, sum(os.times()[2:4]) - before)
    return best


def test_plan_show_takes_little_more_than_its_libraries() -> None:
    """Under half a second where importing the two libraries of the command line takes 0.08 s."""
    libraries = processor_time("-c", "import pydantic, typer")
    assert processor_time("-m", "stateplan", "plan", "show", str(PLAN)) < 6 * libraries


def test_no_file_is_too_long() -> None:
    lines = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8").count("\n") for p in python_files()}
    long = {n: c for n, c in lines.items() if c > MAX_LINES}
    assert set(long) == set(LONG_FILES), f"over {MAX_LINES} lines: {long}; with a reason: {LONG_FILES}"
