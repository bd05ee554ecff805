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
    from stateplan.runtime.inspect.stored_state import DataFrame, SparkSession

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
            options: the options of the session: ``spark.*``, and ``table.exec.state.ttl`` for states whose TTL no plan
                says.
            batch: look at the state after this micro-batch, which Spark must still have.
            at: count ages from this instant, ms since 1970; by default now, or the last instant played of a job on the
                replay clock.

        Raises:
            CheckpointError: CKPT001, CKPT002, CKPT041 to CKPT043, or CKPT005.
            PlanError: the plan in it cannot be read.
        """
        own_options = options or {}
        folder = checkpoint_path(checkpoint, own_options) if isinstance(checkpoint, str) else checkpoint
        return CheckpointReader(Snapshot.open(folder, batch, at), own_options)

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
        states = [state for text in selectors for state in self._select(parse_selector(text))]
        return tuple(s for s in self.states if s in states)

    def select_one(self, selector: str | None) -> StateOf:
        """The state that a selector points at; the only one there is without a selector.

        Raises:
            PlanError: PLAN100 to PLAN104.
            CheckpointError: CKPT046, it points at several, or there are several.
        """
        states = self.states if selector is None else self.select(selector)
        if selector is None and len(states) != 1:
            raise CheckpointError(
                "CKPT046", what="no state is named", expected=", ".join(s.selector for s in states) or None
            )
        if len(states) > 1:
            raise CheckpointError(
                "CKPT046",
                what=f"the selector '{selector:.100}' matches {len(states)} states",
                expected=", ".join(s.selector for s in states),
            )
        return states[0]

    def _select(self, target: Selector) -> Sequence[StateOf]:
        try:
            return self._of_views(self._selectors.select(target))
        except PlanError as error:
            if error.code == "PLAN103" and target.state is None:
                return self._of_views(self._selectors.select(replace(target, state=ALL)))
            bare = self._without_ttl(target)
            if error.code not in ("PLAN101", "PLAN104") or not bare:
                raise
            return bare

    def _of_views(self, views: Sequence[StateView]) -> list[StateOf]:
        keys = {(v.node_id, v.index) for v in views}
        states = [s for s in self.states if (s.operator.node.id, s.index) in keys]
        if not states:
            raise CheckpointError(
                "CKPT047",
                folder=self.snapshot.folder,
                views=[v.operator for v in views],
                states=[s.selector for s in self.states],
            )
        return states

    def _without_ttl(self, target: Selector) -> list[StateOf]:
        """The states no TTL applies to whose operator a selector names by type, id or uid."""
        states = []
        for state in self.states:
            node = state.operator.node
            names = {node.title, node.name, node.type, str(node.id), self.document.uids[node.id]}
            input_text = target.brackets[0].text if target.brackets and len(target.brackets) == 1 else None
            fits = target.operator is None or target.operator == ALL or target.operator.text.lower() in names
            if (
                state.view is None
                and target.state is None
                and fits
                and (input_text is None or input_text in (*names, "*"))
            ):
                states.append(state)
        return states

    # ---- how much there is -------------------------------------------------------------------------------------

    def show(self, *selectors: str, what_if: Sequence[str | Assignment] = ()) -> StateReport:
        """How much state there is, how old it is, and what other TTLs would leave of it.

        Args:
            selectors: the selectors of the states to show; all by default.
            what_if: ``SELECTOR=TTL``, such as ``join.left=3 h``.

        Raises:
            PlanError: as :meth:`select`; PLAN105 and PLAN05x for what is not an assignment.
            CheckpointError: CKPT010 to CKPT013, state is damaged; CKPT045, Spark cannot read it.
        """
        assignments = [parse_assignment(a) if isinstance(a, str) else a for a in what_if]
        return self._retry(lambda reader: reader._show(selectors, assignments))  # noqa: SLF001 - of the same class

    def _show(self, selectors: Sequence[str], assignments: Sequence[Assignment]) -> StateReport:
        from stateplan.runtime.inspect.stored_state import Cut, count_state

        states = self.select(*selectors)
        what_if = [(s, a.ttl) for a in assignments for s in self._of_views(self._selectors.select(a.selector))]
        operators = [o for o in self._operators if any(s.operator is o for s in (*states, *(s for s, _ in what_if)))]
        cuts = []
        for operator in operators:
            operator_cuts: list[list[Cut]] = []
            for table in operator.tables:
                index = table.table.slot
                mine = [t for s, t in what_if if s.operator is operator and s.index == index]
                operator_cuts.append(
                    [Cut(ahead, t) for t in (operator.ttl[index].ttl, *mine) for ahead in (0, HOUR, DAY)]
                )
            cuts.append(operator_cuts)
        counts = count_state(self.spark, self.snapshot, operators, cuts)

        def figures(state: StateOf) -> StateFigures:
            number = operators.index(state.operator)
            tables = enumerate(state.operator.tables)
            tables_of_state = {t.name: counts[number, p] for p, t in tables if t.table.slot == state.index}
            return StateFigures(state, tables_of_state)

        guesses = []
        for place, (state, ttl) in enumerate(what_if):
            earlier = sum(1 for s, _ in what_if[:place] if s.operator is state.operator and s.index == state.index)
            guesses.append(WhatIf(figures(state), ttl, 3 * (1 + earlier)))
        return report(self.snapshot, self.document, [figures(s) for s in states], guesses, len(self.states))

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
            selectors: the selectors of the states to report; all by default. What others need is heeded in any case.
            miss: how many of the uses of a state may be missed, in percent.

        Raises:
            PlanError: as :meth:`select`.
            CheckpointError: as :meth:`show`; CKPT040, the checkpoint has no records of uses.
        """
        from stateplan.plans.state.advise import advise
        from stateplan.runtime.metrics.log import read_metrics
        from stateplan.runtime.metrics.state_uses import StateUses

        names = {s.selector for s in self.select(*selectors)}
        metrics = StateUses.of(read_metrics(self.snapshot.folder))
        if not metrics.ages:
            raise CheckpointError(
                "CKPT040", folder=self.snapshot.folder, what="records of how old rows of state were when they were used"
            )
        advice = advise(self.show(), self.document, metrics, miss, self._options)
        return replace(advice, states=tuple(s for s in advice.states if s.selector in names))

    # ---- its rows ----------------------------------------------------------------------------------------------

    def table(self, state: StateOf, name: str | None = None) -> TableState:
        """A table of ``state``, by default the one it is about. Raises CheckpointError CKPT044, it does not exist."""
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
        state_table = self.table(state, table)
        filters = row_filters(state_table, keys or {})
        return RowRequest(state_table.table, state_table.labels, state.config.ttl, expired, filters, limit)

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
            selector: the selector of one state, such as ``join.left``.
            table: which of its tables, where there are several; by default the one that the state is about.
            keys: only rows with these values, by name of the column; texts are read as values of its type.
            expired: whether to read also the rows that have expired and are still there.

        Raises:
            PlanError: PLAN100 to PLAN104, the selector fits no state.
            CheckpointError: CKPT044, no such table; CKPT046, several states; CKPT048 and CKPT049, ``keys``; CKPT045,
                Spark cannot read the state.
        """
        from stateplan.runtime.inspect.stored_state import row_frame

        def work(reader: CheckpointReader) -> DataFrame:
            state = reader.select_one(selector)
            request = reader.request(state, table, keys, expired)
            return row_frame(reader.spark, reader.snapshot, state.operator, request)

        return self._retry(work)

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
        from stateplan.runtime.inspect.state_rows import arrow_schema
        from stateplan.runtime.inspect.stored_state import iterate_rows

        def work(reader: CheckpointReader) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
            state = reader.select_one(selector)
            request = reader.request(state, table, keys, expired, limit)
            rows = iterate_rows(reader.spark, reader.snapshot, state.operator, request)
            return arrow_schema(request), _first(rows, limit)

        return self._retry(work)

    @property
    def spark(self) -> SparkSession:
        """The Spark session that reads."""
        from stateplan.runtime.spark.session import session

        return session(self._options)

    def _retry(self, work: Callable[[CheckpointReader], T]) -> T:
        """``work``, done again on a later micro-batch when the files of this one have gone meanwhile."""
        from stateplan.runtime.inspect.stored_state import UNREADABLE

        reader = self
        for attempt in range(_ATTEMPTS):
            try:
                return work(reader)
            except CheckpointError as error:
                newer = reader.snapshot.newer() if error.code == UNREADABLE and reader.snapshot.newest else None
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
