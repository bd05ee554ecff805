"""Rules about TTLs: results that become wrong, state that grows without bound."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from stateplan.common.errors import PlanError
from stateplan.common.ttl import NEVER, format_ttl, outlives, parse_ttl
from stateplan.connectors.registry import known_connector
from stateplan.execnodes.node_ttls import compiled_ttls
from stateplan.execnodes.nodes.base import TIMED_STATE_TTL, ExecNode, TimeBoundNode
from stateplan.execnodes.nodes.mini_batch_assigner import MiniBatchAssigner
from stateplan.execnodes.nodes.table_source_scan import TableSourceScan
from stateplan.execnodes.nodes.watermark_assigner import WatermarkAssigner
from stateplan.execnodes.side_outputs import windowing_of
from stateplan.execnodes.specs import WatermarkPushDown
from stateplan.execnodes.windows import CumulativeWindow, HoppingWindow, SessionWindow, TumblingWindow
from stateplan.functions.rex import Call, Literal, Rex
from stateplan.plans.document import ttl_text
from stateplan.plans.lint.fields import keys, origin
from stateplan.plans.lint.rule import Problem, Rule, Severity, at_state, for_how_long, short_ttl_problem
from stateplan.plans.lint.subject import Origin, State, Subject, longest, siblings, states_of

if TYPE_CHECKING:
    from stateplan.execnodes.nodes.window_aggregates import GroupWindowAggregate


def _outlived(subject: Subject, judged: Callable[[State], bool]) -> Iterator[tuple[State, State]]:
    """Those of the judged states that expire before a state in front of them, each with the longest of these."""
    for state in filter(judged, subject.all_states()):
        front = subject.longest_in_front(state)
        if front is not None and outlives(front.ttl, state.ttl):
            yield state, front


class UnalignedRetractions(Rule, code="TTL001", name="unaligned-retractions", fixable=True):
    """State downstream of updates expires before the upstream operator stops retracting rows.

    Anti-pattern: an operator receives updates or deletions and has a shorter TTL than the state upstream of it.

    Why: the upstream operator remembers its rows for its own TTL, and can retract them until then. A retraction that
    finds nothing has no effect, so results computed from the old row are never corrected: sums include it, and joins
    keep its matches.

    Best practice: do not let TTLs decrease along a path with updates. `--fix` sets the longest TTL of the upstream
    states.
    The alternative is to shorten the upstream TTLs, which loses rows earlier.

    Source: FLIP-292 on unaligned TTLs. Flink's `GroupAggFunction` and `StreamingJoinOperator` show how operators treat
    retractions of expired rows.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state, front in _outlived(subject, lambda s: s.node.title != "sink" and subject.retracts(s.node, s.input)):
            message = (
                f"{state} expires after {ttl_text(state.ttl)}, but {front.operator} upstream can retract its rows "
                f"{for_how_long(front.ttl)}"
            )
            yield short_ttl_problem(subject, state, front.ttl, message)


class UpdatingSideExpiresFirst(Rule, code="TTL002", name="updating-join-side-expires-first", fixable=True):
    """A join side with updates expires before the other side.

    Anti-pattern: one side of a join receives updates or deletions and has a shorter TTL than the other side.

    Why: an expired row of the short side no longer matches new rows of the other side. If the row is then updated, the
    join retracts all matches of the old row, including new rows that it never matched. It retracts results that were
    never emitted, and counts downstream of the join stay too low.

    Best practice: give the side with updates at least the TTL of the other side. `--fix` sets this TTL.

    Source: FLIP-292 and FLIP-373 (a TTL for each side). Flink's `StreamingJoinOperator` processes a retraction from the
    state of the other side alone.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state, others in siblings(subject):
            if not subject.retracts(state.node, state.input):
                continue
            other = longest(others)
            if outlives(other.ttl, state.ttl):
                message = (
                    f"{state} receives updates and expires after {ttl_text(state.ttl)}, before {other.name} "
                    f"({ttl_text(other.ttl)})"
                )
                yield short_ttl_problem(subject, state, other.ttl, message)


class JoinSideMissesUpdates(
    Rule, code="TTL003", name="join-side-misses-updates", severity=Severity.ADVICE, fixable=True
):
    """Updates of one join side arrive after the rows of the other side have expired.

    Anti-pattern: an append-only side of a join has a shorter TTL than the other side, which has updates.

    Why: the join corrects a result only while it knows both rows. If the row of the short side has expired, an update
    of the other side does not change the result. This is often intended when facts are enriched with the value at that
    time, so the finding is advice. It is wrong for readers who expect current values.

    Best practice: give the short side the TTL of the other side, or use a temporal join (`FOR SYSTEM_TIME AS OF`), or
    suppress the finding with the reason. `--fix` sets the TTL, unless it is never, because the side would then grow
    without bound.

    Source: FLIP-373 (a TTL for each side) and Flink's `StreamingJoinOperator`.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state, others in siblings(subject):
            states_with_updates = [other for other in others if subject.retracts(other.node, other.input)]
            if not states_with_updates or not subject.is_insert_only(state.node, state.input):
                continue
            other = longest(states_with_updates)
            if outlives(other.ttl, state.ttl):
                message = (
                    f"{state} expires after {ttl_text(state.ttl)}; later updates of {other.name} "
                    f"({ttl_text(other.ttl)}) do not correct its results"
                )
                yield short_ttl_problem(subject, state, other.ttl, message)


class CountsAgain(Rule, code="TTL004", name="counts-again", fixable=True):
    """An aggregate, rank or deduplication restarts while rows of its key can still arrive.

    Anti-pattern: an aggregate has a shorter TTL than upstream state that determines how long rows of a key arrive, such
    as a deduplication or a join.

    Why: a deduplication with a TTL of 7 days expects rows of a key for 7 days, and a join emits results as long as it
    keeps rows. When a downstream aggregate has expired, it restarts at zero with the next row: 1 replaces the count of
    all days before. A top-N emits new rows without retracting the old ones, and a deduplication emits its first row
    again.

    Best practice: give the aggregate at least the TTL of the upstream state. `--fix` sets this TTL. If a key is
    complete after some time, shorten the upstream state instead.

    Source: Flink's documentation of TTLs of SQL operators ("the count will start again at zero"), and FLIP-292.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        def restarts(state: State) -> bool:
            by_time = state.node.ttl_option == TIMED_STATE_TTL  # a frame with a range, which forgets rows anyway
            return state.node.RESTARTS and not by_time and subject.is_insert_only(state.node, state.input)

        for state, front in _outlived(subject, restarts):
            message = (
                f"{state} restarts after {ttl_text(state.ttl)} without rows, but {front.operator} upstream can "
                f"emit rows of a key {for_how_long(front.ttl)}"
            )
            yield short_ttl_problem(subject, state, front.ttl, message)


class SinkForgetsFirst(Rule, code="TTL005", name="sink-forgets-first", fixable=True):
    """A sink forgets the current row of a key while the query can still change it.

    Anti-pattern: a sink that keeps the rows of each primary key (`requireUpsertMaterialize`) has a shorter TTL than the
    state upstream of it.

    Why: the sink needs these rows to order changes with the same primary key. The deletion of a forgotten row writes
    nothing, and the table shows the row forever. If two rows share a key, the remaining one does not come back.

    Best practice: give the sink at least the longest TTL of all upstream state. `--fix` sets this TTL. A primary
    key that is also the key of the query is better. The sink then needs no state.

    Source: Flink's `SinkUpsertMaterializer` and its warning ("The state is cleared because of state ttl. This will
    result in incorrect result.").
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state, front in _outlived(subject, lambda s: s.node.title == "sink"):
            message = (
                f"{state} forgets the rows of a primary key after {ttl_text(state.ttl)}, but {front.operator} "
                f"upstream can change them {for_how_long(front.ttl)}"
            )
            yield short_ttl_problem(subject, state, front.ttl, message)


class ShorterThanWatermarkDelay(Rule, code="TTL006", name="shorter-than-watermark-delay"):
    """The TTL is shorter than the watermark delay.

    Anti-pattern: `WATERMARK FOR ts AS ts - INTERVAL '1' DAY` accepts rows that are a day late, and state downstream of
    it has a TTL of an hour.

    Why: the state for a late row has expired when the row arrives. Aggregates restart, and deduplications treat a
    duplicate as new. A temporal join keeps each row until the watermark reaches it; rows that expire while they wait
    are never joined.

    Best practice: use a TTL longer than the watermark delay, or shorten the delay to the actual delay of the source.
    How much longer depends on how often keys repeat, so there is no fix.

    Source: Flink's `TemporalRowTimeJoinOperator` (cleanup of waiting rows). TTLs use processing time (Flink's
    documentation of state) and delays use event time, but on live data both advance at the same pace.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        delays = subject.largest_in_front(
            lambda node: _delay(_watermark(node)),
            stops=lambda node: node.EMITS_IN_ORDER,
        )
        for state in subject.all_states():
            origin: Origin | None = delays.get(state.node.id)
            if origin is not None and state.ttl != NEVER and state.ttl < origin.millis:
                yield at_state(
                    state,
                    f"{state} expires after {format_ttl(state.ttl)}, but the watermark of {origin.node.label} waits "
                    f"for rows that are up to {format_ttl(origin.millis)} late",
                    f'set its TTL to more than "{format_ttl(origin.millis)}", or shorten the watermark delay',
                )


def _watermark(node: ExecNode) -> Rex | None:
    """The watermark that an operator makes, or a source itself."""
    if isinstance(node, WatermarkAssigner):
        return node.watermark_expr
    abilities = node.scan_table_source.abilities if isinstance(node, TableSourceScan) else ()
    return next((ability.watermark_expr for ability in abilities if isinstance(ability, WatermarkPushDown)), None)


def _delay(rex: Rex | None) -> int:
    """How far the watermark is behind the largest time, ms; 0 for anything but a time minus an interval."""
    if isinstance(rex, Call) and rex.name in ("-", "MINUS") and len(rex.operands) == 2:
        interval = rex.operands[1]
        if isinstance(interval, Literal) and "INTERVAL" in interval.type.root and "YEAR" not in interval.type.root:
            return int(interval.value) if str(interval.value).lstrip("-").isdigit() else 0
    return 0


class ShorterThanWindow(Rule, code="TTL007", name="shorter-than-window"):
    """The TTL is shorter than the windows that feed the state.

    Anti-pattern: a running total of daily window results has a TTL of an hour; or rows are grouped by `window_start` of
    a window function, with a TTL shorter than the window.

    Why: window results arrive when windows end. If the TTL is shorter than the time between two ends, a result never
    finds the earlier ones, and the running total is that of the last window. If rows are grouped by the window itself,
    a group without rows for the TTL restarts within its window.

    Best practice: use a TTL of several windows. A window aggregation (`GROUP BY window_start, window_end` directly
    after the window function) needs no TTL, except for input that becomes idle.

    Source: Flink's documentation of window table-valued functions (window operators drop state when the window ends,
    other operators keep it for their TTL), and FLIP-145.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        pace = subject.largest_in_front(lambda node: _length(node, "pace") if node.CLOSES_WINDOWS else 0)
        for state in subject.all_states():
            if state.ttl == NEVER:
                continue
            window = _window_in_key(subject, state)
            if window is not None:
                size = _length(window, "size")
                if window.title == "window-table-function" and state.ttl < size:
                    yield _problem(state, f"it is grouped by windows of {format_ttl(size)} ({window.label})", size)
                continue
            origin: Origin | None = pace.get(state.node.id)
            if origin is not None and state.ttl <= origin.millis:
                reason = f"{origin.node.label} emits results every {format_ttl(origin.millis)}"
                yield _problem(state, reason, origin.millis)


def _problem(state: State, reason: str, millis: int) -> Problem:
    message = f"{state} expires after {format_ttl(state.ttl)}, but {reason}"
    return at_state(state, message, f'set its TTL to more than "{format_ttl(millis)}"')


def _window_in_key(subject: Subject, state: State) -> ExecNode | None:
    """The operator that makes a window's bound by which the state is kept, if it is."""
    source = subject.graph.inputs(state.node)[state.input]
    for key in keys(state.node, state.input):
        node, field = origin(subject.graph, source, key)
        if node.title == "window-table-function" or node.CLOSES_WINDOWS:
            properties = vars(node).get("named_window_properties")
            first = len(node.output_type.fields) - (3 if properties is None else len(properties))
            if field >= first:
                return node
    return None


def _length(node: ExecNode, part: str) -> int:
    """The size of an operator's windows, or the time between two of their ends, ms; 0 if it is not known."""
    windowing = windowing_of(node)
    window: object = None if windowing is None else windowing.window
    if node.title == "group-window-aggregate":
        window = cast("GroupWindowAggregate", node).window.spec
    if isinstance(window, TumblingWindow):
        return window.size
    if isinstance(window, SessionWindow):
        return window.gap
    if isinstance(window, HoppingWindow):
        return window.size if part == "size" else window.slide
    if isinstance(window, CumulativeWindow):
        return window.max_size if part == "size" else window.step
    return 0


_MONITOR = "source.monitor-interval"


class ShorterThanBatchInterval(Rule, code="TTL008", name="shorter-than-batch-interval"):
    """The TTL is not longer than the time between two batches of rows.

    Anti-pattern: a source looks for new files every 10 minutes (`source.monitor-interval`), or rows wait 10 minutes for
    a mini-batch (`table.exec.mini-batch.allow-latency`), and state downstream of it has a TTL of 5 minutes.

    Why: all state has expired when the next rows arrive. Aggregates restart with every batch, and joins match only rows
    of the same batch.

    Best practice: use a TTL of many such intervals. How many depends on how often keys repeat, so there is no fix.

    Source: Flink's `FileSystemConnectorOptions.SOURCE_MONITOR_INTERVAL` and
    `ExecutionConfigOptions.TABLE_EXEC_MINIBATCH_ALLOW_LATENCY`. A TTL starts at the last write (Flink's documentation
    of state, `OnCreateAndWrite`).
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        intervals = subject.largest_in_front(_interval)
        for state in subject.all_states():
            origin: Origin | None = intervals.get(state.node.id)
            if origin is not None and state.ttl != NEVER and state.ttl <= origin.millis:
                yield at_state(
                    state,
                    f"{state} expires after {format_ttl(state.ttl)}, but rows of {origin.node.label} arrive every "
                    f"{format_ttl(origin.millis)}",
                    f'set its TTL to several times "{format_ttl(origin.millis)}", or shorten the interval',
                )


def _interval(node: ExecNode) -> int:
    if isinstance(node, MiniBatchAssigner):
        return node.mini_batch_interval.interval
    table = node.scan_table_source.table.resolved_table if isinstance(node, TableSourceScan) else None
    text = (table.options or {}).get(_MONITOR) if table is not None else None
    try:
        return parse_ttl(text) if text is not None else 0
    except PlanError:
        return 0


class ShadowedHint(Rule, code="TTL009", name="shadowed-hint", severity=Severity.ADVICE):
    """An edit of the plan overrides a STATE_TTL hint in the SQL.

    Anti-pattern: the SQL has `/*+ STATE_TTL('orders' = '7 d') */`, and the plan compiled from it has another TTL.

    Why: the plan wins, so the hint misleads readers of the SQL. Changing the hint has no effect until the plan is
    compiled again, and then the edit is lost.

    Best practice: set the TTL in one place. Move it into the hint and compile the plan again, or remove the hint from
    the SQL, or reset the TTL of the plan. Only the author knows which is right, so there is no fix.

    Source: FLIP-373 and Flink's documentation of TTLs of SQL operators: a TTL in the plan overrides a hint, and a hint
    overrides `table.exec.state.ttl`.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state in subject.all_states():
            compiled_entries = compiled_ttls(state.node)
            if state.index >= len(compiled_entries):
                continue
            ttl, whence = compiled_entries[state.index]
            if whence == "hint" and ttl != state.ttl:
                yield at_state(
                    state,
                    f"the TTL of {state} is {ttl_text(state.ttl)}, but the hint in the SQL sets {ttl_text(ttl)}",
                    "move the TTL into the hint and compile the plan again, or remove the hint, or reset the TTL",
                )


class ShortenedOnCheckpoint(Rule, code="TTL010", name="shortened-on-checkpoint"):
    """The TTL is shorter than the one that existing state was written with.

    Anti-pattern: you stop a job, shorten a TTL in its plan, and start it again on its checkpoint. Lint checks this with
    `--checkpoint` or `--against`.

    Why: state stores the time of the last write, not the time of expiry. With the first micro-batch, all rows older
    than the new TTL expire together. The next rows of their keys start again, and results computed from the old rows
    are never corrected. A longer TTL does not bring them back.

    Best practice: shorten a TTL only if no row older than the new TTL matters, and keep a copy of the checkpoint. Or
    accept the loss with `--suppress TTL010 --reason ...`.

    Source: Flink's documentation of state TTL (the TTL is not part of a checkpoint), and FLINK-32953 on changing the
    TTL of existing state.
    """

    def applies(self, subject: Subject) -> bool:
        return subject.against is not None

    def check(self, subject: Subject) -> Iterator[Problem]:
        if subject.against is None:
            return
        names = subject.against.uids
        old = {
            (names[node_id], state.index): state
            for node_id, states in states_of(subject.against.graph, subject.session, timed=True).items()
            for state in states
        }
        for state in subject.all_states():
            twin = old.get((subject.document.uids[state.node.id], state.index))
            if twin is not None and outlives(twin.ttl, state.ttl):
                yield at_state(
                    state,
                    f"{state} was written with the TTL {ttl_text(twin.ttl)}; with {ttl_text(state.ttl)}, all older "
                    "rows expire at once",
                    f'set its TTL back to "{ttl_text(twin.ttl) if twin.ttl else "0 ms"}", or wait until '
                    "older rows no longer matter",
                )


class EndlessState(Rule, code="TTL011", name="endless-state", severity=Severity.ADVICE):
    """State that never expires is fed by an unbounded source.

    Anti-pattern: a join or a GROUP BY of append-only streams without any TTL.

    Why: the state keeps every new key forever, and a join keeps every row. The job becomes slower and its checkpoints
    grow, until it fails. State downstream of updates and deletions is not reported, because rows leave it when they
    leave the table.

    Best practice: set a TTL longer than the time between rows of a key: in the plan (`plan set-ttl`), in a hint, or for
    all states with `table.exec.state.ttl`. Or use windows, interval joins and temporal joins, which know when a row is
    no longer needed. The right TTL depends on the data, so there is no fix. If there are only a few keys, suppress the
    finding with that reason.

    Source: Flink's documentation, "Performance tuning" and "State management" of streaming SQL (operators that keep
    state forever by default).
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        endless = _endless(subject)
        for state in subject.all_states():
            source = endless.get(subject.graph.inputs(state.node)[state.input].id)
            if state.ttl == NEVER and source is not None and _grows(subject, state):
                yield at_state(
                    state,
                    f"{state} never expires, and {source} is unbounded",
                    'set its TTL, or "table.exec.state.ttl" for all states, to more than the time between rows of '
                    "a key",
                )


def _endless(subject: Subject) -> dict[int, str]:
    """The operators that rows of a source without end reach, by id, with the name of its table."""
    table_by_node: dict[int, str] = {}
    for node in subject.nodes:
        table_name = next(
            (table_by_node[source.id] for source in subject.graph.inputs(node) if source.id in table_by_node), None
        )
        if isinstance(node, TableSourceScan):
            table = node.scan_table_source.table
            if table.resolved_table is not None and table.resolved_table.options:
                table_name = table_name if _ends(table.resolved_table.options) else table.summary.rpartition(".")[2]
        if table_name is not None and node.title not in ("limit", "sort-limit"):
            table_by_node[node.id] = table_name
    return table_by_node


def _ends(options: Mapping[str, str]) -> bool:
    """Whether a table is read to an end. Connectors that are not known stream, as nearly all of Flink's do."""
    connector = known_connector(options)
    return connector is not None and connector.is_bounded(options)


def _grows(subject: Subject, state: State) -> bool:
    """Whether each row, or each new key, adds to the state, and nothing takes it back."""
    node: ExecNode = state.node
    if not subject.is_insert_only(node, state.input) or node.title in ("limit", "sort-limit", "lookup-join"):
        return False
    if node.title in ("join", "multi-join"):
        return True
    distinct = any(call.distinct for call in vars(node).get("agg_calls", ()))
    return bool(keys(node, state.input)) or distinct


class ShorterThanRetention(Rule, code="TTL013", name="shorter-than-retention"):
    """The TTL of a time-bound operator is shorter than its window or interval.

    Anti-pattern: a window aggregation of a day, or an interval join that looks back a day, has a TTL of an hour.

    Why: such operators drop their rows by themselves, when the watermark has passed the window or the interval. A TTL
    that ends earlier removes rows that are still needed. A window then lacks the rows from before the pause, or is not
    emitted at all. An interval join finds no match, and an outer join does not emit the row without one. The rows are
    counted as expired, and there is no other sign.

    Best practice: set the TTL to the length of the window or interval, and add the watermark delay and the longest
    pause of the input. It then removes only rows that an idle input leaves in the state.

    Source: FLIP-25 (time to live) and FLIP-145 (window operators drop state when the window ends). Flink has no TTL for
    these operators.
    """

    def check(self, subject: Subject) -> Iterator[Problem]:
        for state in subject.all_states():
            retention = state.node.retention(state.index) if isinstance(state.node, TimeBoundNode) else 0
            if state.ttl != NEVER and state.ttl < retention:
                yield at_state(
                    state,
                    f"{state} expires after {format_ttl(state.ttl)}, but {state.node.title} needs its rows for "
                    f"{format_ttl(retention)}",
                    f'set its TTL to more than "{format_ttl(retention)}", or to "0 ms" (never)',
                )
