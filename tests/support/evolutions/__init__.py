"""Random evolutions: a query, the same query after some edits, and the instant at which one takes over from the other.

:func:`random_pair` makes one from a seed. :func:`outcome_of` runs it, without Spark: the new query has to go on from
the state of the old one as if it had always run, or is refused with a reason.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from stateplan.common.errors import CheckpointError, StateplanError
from stateplan.execnodes.nodes.phased_aggregates import GlobalGroupAggregate
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.plans.diff import compare
from stateplan.plans.document import PlanDocument
from stateplan.plans.verdicts import severity
from stateplan.runtime.kernels.group_aggregate import BORN
from stateplan.runtime.local.splits import micro_batches
from stateplan.session.environment import TableEnvironment
from stateplan.session.restart import evolve_from
from stateplan.session.script import read_statement
from tests.support.evolutions.edits import Editor
from tests.support.evolutions.making import Maker
from tests.support.evolutions.queries import Program, UnfitError
from tests.support.evolutions.tables import COLUMNS, SECOND, ddl, lines_of, rows
from tests.support.evolving import Play

INSTANTS = tuple(SECOND * n for n in range(1, 5))
"""When rows arrive, ms."""


@dataclass(frozen=True)
class Compiled:
    """A program as SQL, and its plan."""

    sql: str
    plan: PlanDocument


@dataclass(frozen=True)
class Pair:
    """An old query and a new one.

    Attributes:
        old, new: both.
        before_ttl: the new one with the TTLs of the old one.
        stop: the last instant of the old one, ms.
        key_groups: of the state.
        rows: per table the text of its file.
    """

    old: Compiled
    new: Compiled
    before_ttl: Compiled
    stop: int
    key_groups: int
    rows: Mapping[str, str]

    def write(self, folder: Path) -> None:
        """The input."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.rows.items():
            (folder / f"{name}.json").write_text(text)

    def __str__(self) -> str:
        return f"  stop {self.stop}, {self.key_groups} key groups\n  old {self.old.sql}\n  new {self.new.sql}"


def random_pair(seed: int, folder: Path) -> Pair:
    """The pair of a seed: both queries are valid, and differ. ``folder`` is for its input."""
    rng = random.Random(f"evolution {seed}")
    while True:
        maker = Maker(rng)
        try:
            program = maker.program()
            old = compiled(program, folder)
        except (UnfitError, StateplanError):
            continue
        for _ in range(20):
            new_maker = copy.copy(maker)
            new_maker.count += 100
            try:
                before_ttl, new = _edited(new_maker, program, folder)
            except (UnfitError, StateplanError):
                continue
            if new == old:
                continue
            stop = rng.choice(INSTANTS[:-1])
            later = _tables(new.plan) - _tables(old.plan)
            return Pair(old, new, before_ttl, stop, rng.choice((1, 1, 2)), _input(rng, stop, later))


def _edited(maker: Maker, program: Program, folder: Path) -> tuple[Compiled, Compiled]:
    """A program after some edits: before a change of TTLs, and after it. Raises UnfitError, StateplanError."""
    new = copy.deepcopy(program)
    editor = Editor(maker, new)
    for _ in range(maker.rng.choice((1, 1, 2, 3))):
        editor.edit()
    before_ttl = compiled(new, folder)
    if not maker.chance(0.12):
        return before_ttl, before_ttl
    editor.edit_ttl()
    return before_ttl, compiled(new, folder)


def _input(rng: random.Random, stop: int, later: Collection[str]) -> dict[str, str]:
    """The rows of all tables. ``later`` are those that the old plan does not read: they have none before the stop."""
    texts = {}
    for name in COLUMNS:
        instants = [at for at in INSTANTS if at > stop] if name in later else INSTANTS
        texts[name] = lines_of(rows(rng, name, instants))
    return texts


def compiled(program: Program, folder: Path) -> Compiled:
    """A program over the tables in a folder. Raises UnfitError, StateplanError."""
    queries = [query.sql() for query in program.queries]
    environment = TableEnvironment.create()
    settings = [f"SET '{k}' = '{v}'" for k, v in program.options.items()]
    for statement in (*settings, *(ddl(n, program.is_wide).replace("{folder}", str(folder)) for n in COLUMNS)):
        environment.execute_sql(statement)
    inserts = []
    for number, text in enumerate(queries):
        schema = environment.session.compiler.schema(read_statement(text).node, text)
        columns = ", ".join(f"f{i} {_plain(t.summary())}" for i, (_, t) in enumerate(schema))
        environment.execute_sql(f"CREATE TABLE out{number} ({columns}) WITH ('connector' = 'print')")
        inserts.append(f"INSERT INTO out{number} {text}")
    last = inserts[0]
    if len(inserts) > 1:
        last = f"EXECUTE STATEMENT SET BEGIN {'; '.join(inserts)}; END"
    tables = ["wide tables"] if program.is_wide else []
    return Compiled("; ".join([*tables, *settings, last]), environment.compile_plan_sql(last).document)


def _plain(type_text: str) -> str:
    """The type of a column of a sink."""
    return type_text.replace(" NOT NULL", "").removesuffix(" *ROWTIME*").removesuffix(" *PROCTIME*")


def outcome_of(pair: Pair, folder: Path) -> str:
    """Runs a pair. Returns the worst verdict on state; ``refused`` and the reason where state would be lost.

    Raises:
        AssertionError: the new query has another state than if it had always run, or gives other changes.
    """
    pair.write(folder)
    old = Play(pair.old.plan, pair.key_groups)
    old.run(0, _batches(old, pair.stop))
    try:
        new, _ = old.evolve(pair.new.plan)
    except CheckpointError as error:
        assert error.code == "CKPT003", error
        return f"refused\n{error.message}"
    _check_sources(pair.old.plan, pair.new.plan)
    # In one phase, a group starts over that was empty in between, also within a micro-batch. Kept rows do not say when.
    by_keepers = any(o.keepers for o in compare(pair.old.plan, pair.new.plan).operators)
    without = (BORN,) if by_keepers or _has_phases(pair.old.plan) != _has_phases(pair.new.plan) else ()
    # Derived state still has rows that expire with new TTLs; state from history may not.
    now = pair.stop if pair.before_ttl != pair.new else None
    state, stop = _states(new, without, now), _batches(new, pair.stop)
    changes = new.run(stop)
    differences = []
    for whole in _references(pair, stop):
        wanted = _states(whole, without, now)
        wanted_changes = whole.run(stop)
        if (state, changes) == (wanted, wanted_changes):
            states = [o.verdict for o in compare(pair.old.plan, pair.new.plan, old.past({})).operators if o.stateful]
            return max(states, key=severity, default="identical")
        differences.append(f"{_differences(state, wanted)}; changes {changes}, not {wanted_changes}")
    raise AssertionError(differences[-1])


def _references(pair: Pair, stop: int) -> Iterator[Play]:
    """The new plan after a run from the start; where TTLs change, also with the TTLs of the old one up to the stop."""
    whole = Play(pair.new.plan, pair.key_groups)
    whole.run(0, stop)
    yield whole
    if pair.before_ttl != pair.new:
        before = Play(pair.before_ttl.plan, pair.key_groups)
        before.run(0, stop)
        yield before.evolve(pair.new.plan)[0]


def _states(play: Play, without: Collection[str], now: int | None) -> dict[str, list[str]]:
    """The tables that have rows that have not expired ``now``."""
    return {name: table_rows for name, table_rows in play.states(without, now).items() if table_rows}


def _has_phases(document: PlanDocument) -> bool:
    return any(isinstance(node, GlobalGroupAggregate) for node in document.graph.nodes)


def _differences(state: Mapping[str, list[str]], wanted: Mapping[str, list[str]]) -> str:
    """The tables that differ, and their rows."""
    names = [name for name in {**state, **wanted} if state.get(name) != wanted.get(name)]
    return "; ".join(f"{name} has {state.get(name)}, not {wanted.get(name)}" for name in names)


def _batches(play: Play, stop: int) -> int:
    """The number of micro-batches up to an instant."""
    return sum(part.now <= stop for part in micro_batches(play.job))


def _check_sources(old: PlanDocument, new: PlanDocument) -> None:
    """Raises AssertionError where a table that the old plan has read is read from its beginning."""
    read_on = evolve_from(old.text, new, {}, "memory", []).sources
    known = _tables(old)
    for node in new.graph.nodes:
        if isinstance(node, TableSourceScan) and _table(node) in known:
            assert node.id in read_on, f"{_table(node)} is read anew"


def _tables(document: PlanDocument) -> set[str]:
    """The names of the tables that a plan reads."""
    return {_table(node) for node in document.graph.nodes if isinstance(node, TableSourceScan)}


def _table(scan: TableSourceScan) -> str:
    return scan.scan_table_source.table.path[-1]
