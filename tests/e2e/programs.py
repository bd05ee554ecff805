"""Flink's own test programs, run four ways without Spark: from their SQL, from the plan Flink froze for them, with the
state of the rows before a restart taken over by a new job, and the same with the plan migrated before the restart.

The tables of a program are replay tables of the format op-json here, with one row an instant, and sinks that print.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import polars as pl

from stateplan.common.types import LogicalType
from stateplan.connectors.print import Print, format_rows
from stateplan.connectors.registry import CONNECTORS
from stateplan.execnodes.graph import ExecGraph
from stateplan.planner.catalog.objects import CatalogTable
from stateplan.plans.document import PlanDocument
from stateplan.plans.migrate import migrate
from stateplan.runtime.jobgraph import JobGraph
from stateplan.runtime.translate import translate
from stateplan.runtime.user_functions import bind_functions
from stateplan.session.environment import TableEnvironment
from stateplan.session.restore import restore
from tests.e2e.flink_functions import statements
from tests.support.local import LocalRun, fold, instants_of, rows_at, upsert_fold

CLASSES = (
    "AsyncCalc",
    "Calc",
    "ChangelogNormalize",
    "Correlate",
    "Deduplication",
    "Expand",
    "GroupAggregate",
    "GroupWindowAggregate",
    "IncrementalGroupAggregate",
    "IntervalJoin",
    "Join",
    "Limit",
    "LookupJoin",
    "MatchRecognize",
    "MiniBatchAssigner",
    "OverAggregate",
    "OverWindow",
    "Rank",
    "Sort",
    "TableSink",
    "TableSourceScan",
    "TemporalJoin",
    "TemporalSort",
    "Union",
    "Values",
    "WatermarkAssigner",
    "WindowAggregate",
    "WindowDeduplicate",
    "WindowJoin",
    "WindowRank",
    "WindowTableFunction",
)
"""The classes of programs whose operators are this project's."""

MODES = {None: "append", "I": "append", "I,UA,D": "upsert", "I,UA,UB": "retract", "I,UA,UB,D": "retract"}
"""The option ``op-json.mode`` for each ``changelog-mode`` of a source."""

_PHASES = ("before_restore", "after_restore")

_PAUSE = 10_000
"""Milliseconds between the last row before a restart and the first one after it: more than the TTLs of the programs."""


@contextmanager
def connectors_of_its_own() -> Iterator[None]:
    """What is added to the table of connectors is taken out again."""
    before = dict(CONNECTORS)
    try:
        yield
    finally:
        CONNECTORS.clear()
        CONNECTORS.update(before)


@dataclass(frozen=True)
class Program:
    """A program of Flink's planner tests: ``spec`` as in the corpus, and the plan Flink made of it, if it has one."""

    name: str
    program_class: str
    spec: Mapping[str, Any]
    plan: Path | None

    @property
    def label(self) -> str:
        return f"{self.program_class}/{self.name}"

    @property
    def ways(self) -> tuple[str, ...]:
        return tuple(w for w in WAYS if w == "sql" or self.plan is not None)

    # what Flink gives

    def expected(self, sink: Mapping[str, Any]) -> list[str]:
        """The rows a sink holds in the end, sorted, as ``+I[...]`` without the kind."""
        if sink["expected_materialized"]:
            return fold(sink["expected_materialized"])
        parts = ("before",) if self.restores_nothing else ("before", "after")
        return self.materialized(sink, [line for part in parts for line in sink[f"expected_{part}"] or ()])

    def materialized(self, sink: Mapping[str, Any], lines: Sequence[str]) -> list[str]:
        """The rows that changes leave in a sink: by its primary key if it has one, else as a multiset."""
        if not sink["primary_key"]:
            return fold(lines)
        names = _column_names(sink)
        return upsert_fold(lines, [names.index(k) for k in sink["primary_key"]])

    @property
    def restores_nothing(self) -> bool:
        return any(t["after_restore_source"] == "NO_RESTORE" for t in self.spec["restore_tests"])

    # four ways

    def from_sql(self, folder: Path) -> dict[str, list[str]]:
        """What the sinks hold after the whole input, the plan compiled from the program's SQL."""
        return self._run(folder, self._compiled, restart=False, metadata=False)

    def from_plan(self, folder: Path) -> dict[str, list[str]]:
        """What the sinks hold after the whole input, by Flink's plan."""
        return self._run(folder, self._frozen, restart=False)

    def restored(self, folder: Path) -> dict[str, list[str]]:
        """What the sinks hold after the input, a new job by Flink's plan having taken over the state in between."""
        return self._run(folder, self._frozen, restart=True)

    def migrated(self, folder: Path) -> dict[str, list[str]]:
        """What the sinks hold after the input, the migrated plan having taken over the state of Flink's in between."""
        return self._run(folder, self._frozen, restart=True, later=self._current)

    @connectors_of_its_own()
    def _run(
        self,
        folder: Path,
        plan: Callable[[TableEnvironment], ExecGraph],
        restart: bool,
        metadata: bool = True,
        later: Callable[[TableEnvironment], ExecGraph] | None = None,
    ) -> dict[str, list[str]]:
        local: LocalRun | None = None
        printed: dict[str, list[str]] = {s["name"]: [] for s in self.spec["sinks"]}
        now = 0
        for phase in _PHASES[: 1 if self.restores_nothing else 2]:
            now += _PAUSE
            session = self.session(folder / phase, phase, metadata)
            bound = bind_functions(plan(session), session.functions.of_plan)
            graph = translate(bound, self.spec["config"], key_groups=2)
            # The rows of a table that is looked up are others after the restart.
            if local is None or restart or self.program_class == "LookupJoin":
                local = LocalRun(graph) if local is None else local.continue_with(graph)
            readers: list[Any] = [s.reader for s in graph.sources]
            for at in sorted({i for r in readers for i in instants_of(r)}) or [0]:
                now += 1
                rows = {i: rows_at(r, at) for i, r in enumerate(readers)}
                self._print(graph, local.batch(rows, now), printed)
            plan = later or plan
        if local is not None:
            now += _PAUSE
            self._print(local.graph, local.batch({}, now), printed)
            self._print(local.graph, local.close(now), printed)
        return {s["name"]: self.materialized(s, printed[s["name"]]) for s in self.spec["sinks"]}

    @staticmethod
    def _print(graph: JobGraph, delivered: list[list[pl.DataFrame]], printed: dict[str, list[str]]) -> None:
        for sink, frames in zip(graph.sinks, delivered, strict=True):
            for frame in frames:
                printed[sink.name.split(".")[-1]] += format_rows(frame, [t for _, t in sink.columns], None)

    def session(self, folder: Path, phase: str, metadata: bool) -> TableEnvironment:
        """A session with the program's tables, the sources holding the rows of a phase.

        Args:
            metadata: whether what a source reads as metadata is declared so: a replay table has none to give, so
                what is compiled anew reads it as columns.
        """
        folder.mkdir(parents=True)
        session = TableEnvironment.create(self.spec["config"])
        sources = {s["name"]: s for s in self.spec["sources"]}
        for offset, (name, table) in enumerate(sources.items()):
            path = folder / f"{name}.json"
            mode = MODES[(table["options"] or {}).get("changelog-mode")]
            options = {"connector": "replay", "format": "op-json", "op-json.mode": mode, "path": str(path)}
            session.execute_sql(ddl(table, options, metadata))
            columns = _physical(session, name)
            with path.open("w") as file:
                for n, (kind, values) in enumerate(table[phase] or ()):
                    row = {c: _encoded(v, t) for (c, t), v in zip(columns, values, strict=False)}
                    at = n * len(sources) + offset + 1
                    file.write(json.dumps({"_op": kind, **row, "@at": at}) + "\n")
        for table in self.spec["sinks"]:
            options = {"connector": _values_sink(table["options"] or {})}
            if table["primary_key"]:
                options["changelog-mode"] = "upsert"
            session.execute_sql(ddl(table, options, metadata=True))
        for statement in statements(self.spec["functions"]):
            session.execute_sql(statement)
        return session

    def _compiled(self, session: TableEnvironment) -> ExecGraph:
        statements = [s.rstrip().rstrip(";") for s in self.spec["sql"]]
        if len(statements) == 1:
            text = statements[0]
        else:
            text = "EXECUTE STATEMENT SET BEGIN " + " ".join(f"{s};" for s in statements) + " END"
        document = PlanDocument.parse(session.compile_plan_sql(text).as_json_string())
        return restore(document, session.catalog, self.spec["config"]).graph

    def _frozen(self, session: TableEnvironment) -> ExecGraph:
        assert self.plan is not None
        document = PlanDocument.load(str(self.plan))
        return restore(document, session.catalog, self.spec["config"]).graph

    def _current(self, session: TableEnvironment) -> ExecGraph:
        assert self.plan is not None
        document = migrate(PlanDocument.load(str(self.plan))).document
        return restore(document, session.catalog, self.spec["config"]).graph


WAYS: Mapping[str, Callable[[Program, Path], dict[str, list[str]]]] = {
    "sql": Program.from_sql,
    "plan": Program.from_plan,
    "restore": Program.restored,
    "migrated": Program.migrated,
}
"""The ways to run a program."""


def programs(shared: Path) -> list[Program]:
    """The programs of :data:`CLASSES`, sorted."""
    index = json.loads((shared / "index.json").read_text())
    plans = {p["program_file"]: shared / p["plan"] for p in index["plans"] if p["program_file"]}
    out = []
    for entry in index["programs"]:
        name = entry["program_class"].removesuffix("TestPrograms")
        if name in CLASSES and entry["has_sql"]:
            spec = json.loads((shared / entry["file"]).read_text())
            out.append(Program(entry["id"], name, spec, plans.get(entry["file"])))
    return sorted(out, key=lambda p: (p.program_class, p.name))


def failing() -> dict[str, str]:
    """``class/name/way`` of what does not pass, with the reason."""
    listed: dict[str, str] = json.loads((Path(__file__).parent / "programs_failing.json").read_text())
    return listed


def _values_sink(options: Mapping[str, str]) -> str:
    """The name of a sink like Flink's connector for tests, which can all that a sink can; it prints."""
    writable = tuple(tuple(part.split(":")) for part in options.get("writable-metadata", "").split(",") if part)
    name = "values" + "".join(f"-{key}" for key, _ in writable)
    abilities = frozenset({"Partitioning", "Overwrite", "Bucketing"})
    made = type("Values", (Print,), {"name": name, "sink_abilities": abilities, "writable": writable})
    CONNECTORS[name] = made()
    return name


def _column_names(table: Mapping[str, Any]) -> list[str]:
    text = ", ".join(table["schema"])
    return [part.strip().split()[0].strip("`") for part in text.split(",") if part.strip()]


def ddl(table: Mapping[str, Any], options: Mapping[str, str], metadata: bool) -> str:
    """CREATE TABLE for a table of a program, its metadata columns as such or as physical ones."""
    partition = f" PARTITIONED BY ({', '.join(f'`{c}`' for c in table['partition'])})" if table["partition"] else ""
    written = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
    distribution = (table["distribution"] or {}).get("ddl") or ""
    columns = ", ".join(table["schema"])
    if not metadata:
        columns = re.sub(r" METADATA(?: FROM '[^']*')?(?: VIRTUAL)?", "", columns)
    return f"CREATE TABLE `{table['name']}` ({columns}) {distribution}{partition} WITH ({written})"


def _physical(session: TableEnvironment, name: str) -> list[tuple[str, LogicalType]]:
    """The columns that rows have values for: physical ones and metadata."""
    table = session.catalog.find([name])
    assert isinstance(table, CatalogTable)
    return [(c.name, c.type) for c in table.schema.columns if c.kind != "COMPUTED"]


def _encoded(value: Any, of: LogicalType) -> Any:
    """A value of the corpus as the format json reads it."""
    if value is None:
        return None
    if of.root == "ROW":
        return {f.name: _encoded(v, f.type) for f, v in zip(of.fields, value["row"], strict=True)}
    if of.root == "ARRAY":
        return [_encoded(v, of.children[0]) for v in value]
    if of.root in ("MAP", "MULTISET"):
        return {str(k): _encoded(v, of.children[-1]) for k, v in value["map"]}
    if of.root == "DECIMAL" and isinstance(value, dict):
        return value["decimal"]
    if of.root.startswith("TIMESTAMP"):
        text = datetime.fromisoformat(value.removesuffix("Z")).isoformat(" ")
        return text + "Z" if of.root == "TIMESTAMP_WITH_LOCAL_TIME_ZONE" else text
    return value
