"""Opens the state of a checkpoint by the selectors of its plan."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from stateplan.common.errors import CheckpointError, PlanError
from stateplan.common.paths import AnyPath
from stateplan.plans.document import PlanDocument
from stateplan.plans.selector_text import ALL, Assignment, Selector, parse_assignment, parse_selector
from stateplan.plans.selectors import Selectors
from stateplan.plans.state.history import History, history
from stateplan.plans.state.keys import row_filters
from stateplan.plans.state.show import DAY, HOUR, StateFigures, StateOf, StateReport, WhatIf, report
from stateplan.plans.states import StateView
from stateplan.runtime.checkpoint.live_ttl import read_ttls
from stateplan.runtime.inspect.inspection import Snapshot, TableState, operator_states
from stateplan.runtime.inspect.state_rows import RowRequest
from stateplan.runtime.spark.hadoop import checkpoint_path

if TYPE_CHECKING:
    import pyarrow as pa

    from stateplan.plans.state.advise import Advised
    from stateplan.runtime.inspect.reading import DataFrame, SparkSession

T = TypeVar("T")

_ATTEMPTS = 4


class CheckpointReader:
    """The state that a checkpoint holds after a micro-batch, the last one by default.

    ::

        reader = CheckpointReader.read("/data/checkpoint")
        print(reader.show(what_if=["join.left=3 h"]))
        frame = reader.read_state("join.left", keys={"order_id": 5})

    Attributes:
        snapshot: the checkpoint after that micro-batch.
        document: its plan.
        states: all states of its operators.
    """

    def __init__(self, snapshot: Snapshot, options: Mapping[str, str]) -> None:
        self.snapshot = snapshot
        self._options = dict(options)
        self.document = PlanDocument.parse(snapshot.plan_text, str(snapshot.folder / "plan.json"))
        self._selectors = Selectors(self.document, options)
        self._record = read_ttls(snapshot.folder)
        self._operators = operator_states(snapshot, self.document.graph, options, self._record)
        self.states = tuple(self._states())

    @staticmethod
    def read(
        checkpoint: str | AnyPath,
        options: Mapping[str, str] | None = None,
        *,
        batch: int | None = None,
        at: int | None = None,
    ) -> CheckpointReader:
        """Opens a checkpoint; a job may be running on it.

        Args:
            checkpoint: its directory.
            options: of the session: ``spark.*``, and ``table.exec.state.ttl`` for states whose TTL no plan says.
            batch: look at the state after this micro-batch, which Spark must still have.
            at: count ages from this instant, ms since 1970; by default now, or the last instant played of a job on the
                replay clock.

        Raises:
            CheckpointError: CKPT001, CKPT002, CKPT041 to CKPT043, or CKPT005.
            PlanError: the plan in it cannot be read.
        """
        given = options or {}
        folder = checkpoint_path(checkpoint, given) if isinstance(checkpoint, str) else checkpoint
        return CheckpointReader(Snapshot.open(folder, batch, at), given)

    def _states(self) -> Iterator[StateOf]:
        views = {(v.node_id, v.index): v for v in self._selectors.views}
        titles = [o.node.title for o in self._operators]
        for operator in self._operators:
            for index in dict.fromkeys(t.table.slot for t in operator.tables):
                view = views.get((operator.node.id, index))
                if view is not None:
                    live = self._record.get((operator.entry.uid, index))
                    yield StateOf(operator, index, self._selectors.name_alone(view), view.name, view, live)
                else:
                    title = operator.node.title
                    selector = title if titles.count(title) == 1 else f"{title}[{operator.node.id}]"
                    yield StateOf(operator, index, selector, title, None)

    # ---- which states ------------------------------------------------------------------------------------------

    def select(self, *selectors: str) -> tuple[StateOf, ...]:
        """The states that selectors point at, each once, in the order of the plan; all without any selector.

        A selector may name an operator with several states, and one whose state no TTL applies to.

        Raises:
            PlanError: PLAN100 to PLAN104.
        """
        if not selectors:
            return self.states
        found = [state for text in selectors for state in self._select(parse_selector(text))]
        return tuple(s for s in self.states if s in found)

    def select_one(self, selector: str | None) -> StateOf:
        """The state that a selector points at; the only one there is without a selector.

        Raises:
            PlanError: PLAN100 to PLAN104.
            CheckpointError: CKPT046, it points at several, or there are several.
        """
        found = self.states if selector is None else self.select(selector)
        if selector is None and len(found) != 1:
            raise CheckpointError(
                "CKPT046", what="no state is named", expected=", ".join(s.selector for s in found) or None
            )
        if len(found) > 1:
            raise CheckpointError(
                "CKPT046",
                what=f"the selector '{selector:.100}' matches {len(found)} states",
                expected=", ".join(s.selector for s in found),
            )
        return found[0]

    def _select(self, wanted: Selector) -> Sequence[StateOf]:
        try:
            return self._of_views(self._selectors.select(wanted))
        except PlanError as error:
            if error.code == "PLAN103" and wanted.state is None:
                return self._of_views(self._selectors.select(replace(wanted, state=ALL)))
            bare = self._without_ttl(wanted)
            if error.code not in ("PLAN101", "PLAN104") or not bare:
                raise
            return bare

    def _of_views(self, views: Sequence[StateView]) -> list[StateOf]:
        keys = {(v.node_id, v.index) for v in views}
        found = [s for s in self.states if (s.operator.node.id, s.index) in keys]
        if not found:
            raise CheckpointError(
                "CKPT047",
                folder=self.snapshot.folder,
                views=[v.operator for v in views],
                states=[s.selector for s in self.states],
            )
        return found

    def _without_ttl(self, wanted: Selector) -> list[StateOf]:
        """The states no TTL applies to whose operator a selector names by type, id or uid."""
        out = []
        for state in self.states:
            node = state.operator.node
            names = {node.title, node.name, node.type, str(node.id), self.document.uids[node.id]}
            which = wanted.which[0].text if wanted.which and len(wanted.which) == 1 else None
            fits = wanted.operator is None or wanted.operator == ALL or wanted.operator.text.lower() in names
            if state.view is None and wanted.state is None and fits and (which is None or which in (*names, "*")):
                out.append(state)
        return out

    # ---- how much there is -------------------------------------------------------------------------------------

    def show(self, *selectors: str, what_if: Sequence[str | Assignment] = ()) -> StateReport:
        """How much state there is, how old it is, and what other TTLs would leave of it.

        Args:
            selectors: of the states to show; all by default.
            what_if: ``SELECTOR=TTL``, such as ``join.left=3 h``.

        Raises:
            PlanError: as :meth:`select`; PLAN105 and PLAN05x for what is not an assignment.
            CheckpointError: CKPT010 to CKPT013, state is damaged; CKPT045, Spark cannot read it.
        """
        asked = [parse_assignment(a) if isinstance(a, str) else a for a in what_if]
        return self._reading(lambda reader: reader._show(selectors, asked))  # noqa: SLF001 - of the same class

    def _show(self, selectors: Sequence[str], asked: Sequence[Assignment]) -> StateReport:
        from stateplan.runtime.inspect.reading import Cut, count_state

        chosen = self.select(*selectors)
        what_if = [(s, a.ttl) for a in asked for s in self._of_views(self._selectors.select(a.selector))]
        scanned = [o for o in self._operators if any(s.operator is o for s in (*chosen, *(s for s, _ in what_if)))]
        cuts = []
        for operator in scanned:
            wanted: list[list[Cut]] = []
            for table in operator.tables:
                index = table.table.slot
                mine = [t for s, t in what_if if s.operator is operator and s.index == index]
                wanted.append([Cut(ahead, t) for t in (operator.ttl[index].ttl, *mine) for ahead in (0, HOUR, DAY)])
            cuts.append(wanted)
        counted = count_state(self.spark, self.snapshot, scanned, cuts)

        def figures(state: StateOf) -> StateFigures:
            number = scanned.index(state.operator)
            tables = enumerate(state.operator.tables)
            found = {t.name: counted[number, p] for p, t in tables if t.table.slot == state.index}
            return StateFigures(state, found)

        guesses = []
        for place, (state, ttl) in enumerate(what_if):
            before = sum(1 for s, _ in what_if[:place] if s.operator is state.operator and s.index == state.index)
            guesses.append(WhatIf(figures(state), ttl, 3 * (1 + before)))
        return report(self.snapshot, self.document, [figures(s) for s in chosen], guesses, len(self.states))

    def history(self, *selectors: str) -> History:
        """How large states have been over time; all by default, those that an earlier plan had too.

        Raises:
            PlanError: as :meth:`select`.
            CheckpointError: CKPT040, the checkpoint has no records of that.
        """
        names = {(s.operator.entry.uid, s.index): s.selector for s in self.states}
        only = [(s.operator.entry.uid, s.index) for s in self.select(*selectors)] if selectors else None
        return history(self.snapshot.folder, names, only)

    def advise(self, *selectors: str, miss: float = 0.01) -> Advised:
        """Which TTLs the states need, by how old their rows were when they were used.

        Args:
            selectors: of the states to tell about; all by default. What others need is heeded in any case.
            miss: how many of the uses of a state may be missed, in percent.

        Raises:
            PlanError: as :meth:`select`.
            CheckpointError: as :meth:`show`; CKPT040, the checkpoint has no records of uses.
        """
        from stateplan.plans.state.advise import advise
        from stateplan.runtime.metrics.log import read_metrics
        from stateplan.runtime.metrics.state_uses import StateUses

        chosen = {s.selector for s in self.select(*selectors)}
        observed = StateUses.of(read_metrics(self.snapshot.folder))
        if not observed.ages:
            raise CheckpointError(
                "CKPT040", folder=self.snapshot.folder, what="records of how old rows of state were when they were used"
            )
        found = advise(self.show(), self.document, observed, miss, self._options)
        return replace(found, states=tuple(s for s in found.states if s.selector in chosen))

    # ---- its rows ----------------------------------------------------------------------------------------------

    def table(self, state: StateOf, name: str | None = None) -> TableState:
        """A table of ``state``, by default the one it is about. Raises CheckpointError CKPT044 when there is none."""
        return state.main if name is None else state.operator.table(name, state.index)

    def request(
        self,
        state: StateOf,
        table: str | None = None,
        keys: Mapping[str, object] | None = None,
        expired: bool = False,
        limit: int | None = None,
    ) -> RowRequest:
        """Which rows of ``state`` are wanted; see :meth:`read_state`."""
        found = self.table(state, table)
        filters = row_filters(found, keys or {})
        return RowRequest(found.table, found.labels, state.config.ttl, expired, filters, limit)

    def read_state(
        self,
        selector: str,
        *,
        table: str | None = None,
        keys: Mapping[str, object] | None = None,
        expired: bool = False,
    ) -> DataFrame:
        """The rows of a state as a DataFrame of Spark, which reads them when it is used.

        The columns are those of the state under the names of the plan, then ``access_time``, ``expires_at`` (NULL where
        rows never expire) and, with ``expired``, whether the time of the row is up.

        Args:
            selector: of one state, such as ``join.left``.
            table: which of its tables, where there are several; by default the one that the state is about.
            keys: only rows with these values, by name of the column; texts are read as values of its type.
            expired: whether to read also the rows that have expired and are still there.

        Raises:
            PlanError: PLAN100 to PLAN104, the selector fits no state.
            CheckpointError: CKPT044, no such table; CKPT046, several states; CKPT048 and CKPT049, ``keys``; CKPT045,
                Spark cannot read the state.
        """
        from stateplan.runtime.inspect.reading import row_frame

        def work(reader: CheckpointReader) -> DataFrame:
            state = reader.select_one(selector)
            request = reader.request(state, table, keys, expired)
            return row_frame(reader.spark, reader.snapshot, state.operator, request)

        return self._reading(work)

    def batches(
        self,
        selector: str,
        *,
        table: str | None = None,
        keys: Mapping[str, object] | None = None,
        expired: bool = False,
        limit: int | None = None,
    ) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
        """The rows of a state as Arrow batches, never more than one partition of it in memory, and their schema; as
        :meth:`read_state`, at most ``limit`` rows."""
        from stateplan.runtime.inspect.reading import iterate_rows
        from stateplan.runtime.inspect.state_rows import arrow_schema

        def work(reader: CheckpointReader) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
            state = reader.select_one(selector)
            request = reader.request(state, table, keys, expired, limit)
            rows = iterate_rows(reader.spark, reader.snapshot, state.operator, request)
            return arrow_schema(request), _first(rows, limit)

        return self._reading(work)

    @property
    def spark(self) -> SparkSession:
        """The Spark session that reads."""
        from stateplan.runtime.spark.session import session

        return session(self._options)

    def _reading(self, work: Callable[[CheckpointReader], T]) -> T:
        """``work``, done again on a later micro-batch when the files of this one have gone meanwhile."""
        from stateplan.runtime.inspect.reading import GONE

        reader = self
        for attempt in range(_ATTEMPTS):
            try:
                return work(reader)
            except CheckpointError as error:
                newer = reader.snapshot.newer() if error.code == GONE and reader.snapshot.newest else None
                if newer is None or attempt == _ATTEMPTS - 1:
                    raise
                reader = CheckpointReader(newer, self._options)
        raise AssertionError


def _first(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    left = limit
    for batch in batches:
        yield batch if left is None else batch.slice(0, left)
        if left is not None:
            left -= batch.num_rows
            if left <= 0:
                return
