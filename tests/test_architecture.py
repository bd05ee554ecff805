"""The rules of the house that a reader relies on: who imports whom, what starts fast, how long a file is."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.job_records import job_checkpoint
from tests.support.rooms import ROOMS

ROOT = Path(__file__).resolve().parent.parent

SPARK_FOLDERS = ("evolution/", "runtime/", "connectors/")
SPARK_FREE_FOLDERS = ("runtime/kernels/", "connectors/formats/")
HEAVY = ("pyspark", "polars", "sqlglot", "pandas", "pyarrow", "numpy")

PLAN = ROOT / "tests" / "cli" / "data" / "join_plan.json"

MAX_LINES = 600
LONG_FILES: dict[str, str] = {}
"""File -> why it is one room all the same."""

TESTS = ROOT / "tests"
OTHER_TESTS = {"cluster", "deploy", "docs", "e2e", "frozen", "integrations", "packages", "support"}
"""Folders of tests that cover more than one room, and what the tests share."""
MAX_SUPPORT = 25
IMPORTS_OF_TESTS = re.compile(r"(?:from|import) tests\.[\w.]*\btest_\w+|from tests[\w.]* import [^\n]*\btest_\w+")
"""Also in code that a test runs in a process of its own."""

SKIPPED = {".git", ".venv", "build", "dist", "__pycache__", "data", "out"}


def python_files() -> list[Path]:
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in SKIPPED and not f.endswith(".egg-info")]
        found += [Path(folder, f) for f in files if f.endswith(".py")]
    return sorted(found)


def package_files() -> list[str]:
    names = (p.relative_to(ROOT).as_posix() for p in python_files())
    return [n for n in names if n.split("/")[0] in ROOMS]


@dataclass(frozen=True)
class Code:
    """What the rules ask about a file.

    Attributes:
        imports: import statements, those inside functions included.
        functions: name, line and number of lines of each function.
        probes: whether it calls ``getattr`` or ``hasattr``.
        spark: what it names of Spark's inside (:func:`spark_names`).
    """

    imports: tuple[ast.Import | ast.ImportFrom, ...]
    functions: tuple[tuple[str, int, int], ...]
    probes: bool
    spark: tuple[tuple[int, str], ...]


@cache
def code_of(path: Path) -> Code:
    """Each file is read once: the syntax trees of all files take too much memory to be kept, and seconds to make."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))))
    functions = (n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef)))
    calls = (n.func for n in nodes if isinstance(n, ast.Call))
    return Code(
        tuple(n for n in nodes if isinstance(n, (ast.Import, ast.ImportFrom))),
        tuple((n.name, n.lineno, (n.end_lineno or 0) - n.lineno + 1) for n in functions),
        any(isinstance(called, ast.Name) and called.id in ("getattr", "hasattr") for called in calls),
        tuple(spark_names(nodes)),
    )


def import_statements(path: Path) -> tuple[ast.Import | ast.ImportFrom, ...]:
    return code_of(path).imports


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """(line, absolute module) of every import statement."""
    for node in import_statements(path):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        else:
            assert node.level == 0, f"{path}:{node.lineno}: write the whole module name"
            yield node.lineno, node.module or ""


def test_imports_point_one_way() -> None:
    wrong = []
    for name in package_files():
        layer = ROOMS.index(name.split("/")[0])
        for line, module in imports(ROOT / name):
            root, _, inside = module.partition(".")
            top = inside.split(".")[0]
            if root in ROOMS or (root == "stateplan" and (top not in ROOMS or ROOMS.index(top) > layer)):
                wrong.append(f"{name}:{line} imports {module}")
    advice = f"imports point to the right in {' > '.join(reversed(ROOMS))}: move shared code into a room on the right"
    assert not wrong, "\n".join([*wrong, advice])


def test_no_test_imports_from_a_test() -> None:
    """What tests share is in a module beside them, or in ``tests/support``, named after what it holds."""
    wrong = [
        f"{path.relative_to(ROOT)}: {match[0]}"
        for path in python_files()
        if TESTS in path.parents
        for match in IMPORTS_OF_TESTS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_folders_of_tests_are_named_after_rooms() -> None:
    folders = {path.name for path in TESTS.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert folders - set(ROOMS) <= OTHER_TESTS


def test_support_stays_small() -> None:
    """What only one folder uses is in that folder."""
    support = [path.name for path in (TESTS / "support").iterdir() if path.name not in ("__init__.py", "__pycache__")]
    assert len(support) <= MAX_SUPPORT, sorted(support)


def test_no_room_is_over_a_quarter_of_the_code() -> None:
    lines: Counter[str] = Counter()
    for name in package_files():
        lines[name.split("/")[0]] += (ROOT / name).read_text(encoding="utf-8").count("\n")
    large = {room: f"{100 * count / lines.total():.0f} %" for room, count in lines.items() if 4 * count > lines.total()}
    assert not large


def import_graph() -> dict[str, set[str]]:
    """Module to the modules that it imports, inside functions and for the type checker too."""
    modules = {}
    for name in package_files():
        modules["stateplan." + name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")] = ROOT / name
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        found: set[str] = set()
        for node in import_statements(path):
            if isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            else:
                parts = {f"{node.module}.{alias.name}" for alias in node.names}
                found |= {p if p in modules else str(node.module) for p in parts}
        graph[module] = (found & set(modules)) - {module}
    return graph


def test_there_are_no_import_circles() -> None:
    """Not even lazy ones: what is left when modules that import nothing more are taken away again and again."""
    graph = import_graph()
    while free := {module for module, imported in graph.items() if not imported}:
        graph = {module: imported - free for module, imported in graph.items() if module not in free}
    used = set().union(*graph.values()) if graph else set()
    assert not graph, f"in circles, or above one: {sorted(set(graph) & used)}"


def test_nothing_private_is_imported() -> None:
    wrong = []
    for name in package_files():
        for node in import_statements(ROOT / name):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stateplan"):
                parts = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
                wrong += [f"{name}:{node.lineno} {part}" for part in parts if part.startswith("_")]
    assert not wrong, "\n".join(wrong)


def test_only_the_engine_and_connectors_import_pyspark() -> None:
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


IMPORT_LATER = "import these inside functions, and for types under TYPE_CHECKING (python -X importtime shows who does)"


def test_import_of_plans_and_cli_is_light() -> None:
    assert loaded_by("import stateplan.plans, stateplan.cli.app") == [], IMPORT_LATER


def test_processes_that_only_list_state_variables_load_no_library() -> None:
    """Spark starts one on the driver for every stateful operator of a query, and waits for it."""
    code = """
import pyspark.sql.streaming, pyspark.sql.types, pyspark.accumulators, dataclasses
there = set(sys.modules)
import stateplan.runtime.spark.query, stateplan.runtime.metrics.counters
more = {m.partition(".")[0] for m in sys.modules if m not in there} - {"stateplan"} - set(sys.stdlib_module_names)
assert not more, more
"""
    assert loaded_by(code) == ["pyspark"]


@pytest.mark.parametrize("command", ["show", "explain", "lint"])
def test_reading_a_plan_loads_nothing_heavy(command: str) -> None:
    code = f"""
from stateplan.cli.app import main
try:
    main(["plan", {command!r}, {str(PLAN)!r}])
except SystemExit as e:
    assert not e.code, e.code
"""
    assert loaded_by(code) == [], IMPORT_LATER


@pytest.mark.parametrize("command", ["top", "metrics"])
def test_looking_at_a_job_loads_nothing_heavy(command: str, tmp_path: Path) -> None:
    code = f"""
from stateplan.cli.app import main
try:
    main(["job", {command!r}, {str(job_checkpoint(tmp_path))!r}])
except SystemExit as e:
    assert not e.code, e.code
"""
    assert loaded_by(code) == [], IMPORT_LATER


def processor_time(*arguments: str) -> float:
    """Of a whole Python process whose modules are compiled, in seconds."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    before = sum(os.times()[2:4])
    subprocess.run([sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL, env=environment)
    return sum(os.times()[2:4]) - before


def takes_less_than(times: int, libraries: str, *arguments: str) -> bool:
    """Whether a process takes less than so many times as long as one that imports libraries, in the best of up to three
    attempts at both."""
    imports_only, whole = 60.0, 60.0
    for _ in range(3):
        imports_only = min(imports_only, processor_time("-c", f"import {libraries}"))
        whole = min(whole, processor_time(*arguments))
        if whole < times * imports_only:
            return True
    return False


def test_plan_show_takes_little_more_than_its_libraries() -> None:
    """0.65 s where importing the two libraries of the command line takes 0.11 s, with room for a loaded machine."""
    assert takes_less_than(9, "pydantic, typer", "-m", "stateplan", "plan", "show", str(PLAN))


def test_a_query_without_spark_takes_little_more_than_its_libraries() -> None:
    """Under two seconds where importing the libraries takes 0.5 s; most of the rest is reading our modules."""
    libraries = "polars, pyarrow, pydantic, typer, sqlglot"
    assert takes_less_than(4, libraries, "-m", "stateplan", "sql", "-q", "-e", "SELECT 1")


def test_no_file_is_too_long() -> None:
    lines = {str(p.relative_to(ROOT)): p.read_text(encoding="utf-8").count("\n") for p in python_files()}
    long = {n: c for n, c in lines.items() if c > MAX_LINES}
    assert set(long) == set(LONG_FILES), f"split by subject what has over {MAX_LINES} lines: {long}"


def test_functions_are_short() -> None:
    """Under 60 lines, with docstring: small steps, each of which reads as one thought."""
    long = [
        f"{name}:{line} {function} has {lines} lines"
        for name in package_files()
        for function, line, lines in code_of(ROOT / name).functions
        if lines >= 60
    ]
    assert not long, "\n".join(long)


PROBED = {
    "objects of users: functions, their results and modules": (
        "connectors/registry.py functions/process.py functions/render/user.py functions/user.py functions/values.py "
        "planner/binding/grouping.py planner/catalog/functions.py planner/catalog/udf.py planner/catalog/udptf.py "
        "runtime/kernels/common/running_values.py runtime/kernels/common/user_aggregates.py runtime/user_functions.py"
    ),
    "values of any class, by what they can do": (
        "common/errors/__init__.py common/lazy_dataclass.py common/values/atomic.py gateway/client/parameters.py "
        "runtime/kernels/common/accumulator_bytes.py runtime/kernels/common/old_accumulators.py session/elements.py "
        "session/in_memory.py"
    ),
    "what not every system, release, terminal or driver has": (
        "cli/console.py cli/sql_client/configuration.py common/files.py common/roots.py connectors/jdbc/postgres.py "
        "runtime/checkpoint/locks.py runtime/scratch.py session/notebook.py"
    ),
    "Spark's inside": "runtime/spark/jvm_loss.py runtime/spark/session.py",
    "functions by their name in a table": "connectors/formats/change_formats.py planner/dialect/generator.py",
    "parts of a library by their name": "connectors/iceberg/access.py connectors/iceberg/files.py",
    "arrays by their name": "connectors/kafka/batches.py connectors/kafka/fetching.py",
}
"""Why a file looks an attribute up by its name: the object is not one of ours, or the name is in a table."""


def test_our_own_objects_are_not_probed() -> None:
    """An object of ours says what it is by its class: ``isinstance`` instead of ``getattr`` and ``hasattr``."""
    allowed = {name for names in PROBED.values() for name in names.split()}
    probing = {name for name in package_files() if code_of(ROOT / name).probes}
    assert probing <= allowed, sorted(probing - allowed)


SPARK_INSIDE = re.compile(
    r"py4j|org\.apache\.(spark|hadoop)|_(jvm|jdf|jsc|jsparkSession|jlistener|gateway|streamingCheckpointManager)"
    r"|callSite\.\w+|streaming\.sql\.batchId|\.crc|_metadata|(offsets|commits)/.*"
)
"""Names of Py4J, of the JVM's classes, of PySpark's private members, and of files of Spark's checkpoint."""
SPARK_FILES = {"offsets", "commits", "sources", "state", "metadata"}
"""The same, as parts of a path."""


def spark_names(nodes: Sequence[ast.AST]) -> Iterator[tuple[int, str]]:
    """(line, name) of everything of Spark's inside that code names; comments and docstrings may."""
    texts = {id(n.value) for n in nodes if isinstance(n, ast.Expr)}
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in texts:
            if SPARK_INSIDE.fullmatch(node.value) or re.match(r"(py4j|org\.apache\.(spark|hadoop))\b", node.value):
                yield node.lineno, node.value
        elif isinstance(node, ast.Attribute) and SPARK_INSIDE.fullmatch(node.attr):
            yield node.lineno, node.attr
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Constant):
            if node.right.value in SPARK_FILES:
                yield node.lineno, node.right.value
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [a.name for a in node.names] + [getattr(node, "module", None) or ""]
            yield from ((node.lineno, name) for name in names if name.split(".")[0] == "py4j")


def test_only_one_folder_knows_sparks_inside() -> None:
    wrong = [
        f"{name}:{line} names {what}"
        for name in package_files()
        if not name.startswith("runtime/spark/")
        for line, what in code_of(ROOT / name).spark
    ]
    assert not wrong, "\n".join(wrong)


def test_sparks_inside_is_noticed() -> None:
    code = 'frame._jdf\n"a" + "org.apache.spark.X"\nfolder / "commits"\nfrom py4j.protocol import Py4JError\n"""py4j"""'
    assert {line for line, _ in spark_names(list(ast.walk(ast.parse(code))))} == {1, 2, 3, 4}


def test_every_public_name_is_found() -> None:
    import stateplan

    for name in stateplan.__all__:
        assert getattr(stateplan, name) is not None
