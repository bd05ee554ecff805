"""What ``state show`` says: figures per state and table, and what other TTLs would leave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from operator import add
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import ago, bytes_text, in_columns, instant_text
from stateplan.common.ttl import NEVER, TtlConfig, format_ttl
from stateplan.plans.document import PlanDocument, ttl_text
from stateplan.plans.states import StateView
from stateplan.runtime.checkpoint.live_ttl import Setting, StateTtl
from stateplan.runtime.inspect.inspection import OperatorState, Snapshot, TableState
from stateplan.runtime.inspect.state_figures import Aged, TableFigures
from stateplan.runtime.inspect.stored_tables import MAIN_TABLE

HOUR, DAY = 3_600_000, 86_400_000

_CLOCKS = {"replay clock": "the last instant played", "wall clock": "now", "given": "as asked for"}


@dataclass(frozen=True)
class StateOf:
    """One state of one operator.

    Attributes:
        operator: the operator that keeps it.
        index: which of its states.
        selector: the selector of the state.
        name: what the plan calls it.
        view: the entry of the plan; None for state that no TTL applies to.
        live: the TTLs that the checkpoint has recorded; None if it has not recorded any.
    """

    operator: OperatorState
    index: int
    selector: str
    name: str
    view: StateView | None
    live: StateTtl | None = None

    @property
    def config(self) -> TtlConfig:
        """How it ages."""
        return self.operator.ttl[self.index]

    @property
    def tables(self) -> tuple[TableState, ...]:
        """Its tables, the one that it is about first."""
        return self.operator.of_state(self.index)

    @property
    def main(self) -> TableState:
        """The table that it is about."""
        return next((t for t in self.tables if t.name == MAIN_TABLE), self.tables[0])


@dataclass(frozen=True)
class Ages:
    """What ``figures.aged`` has behind place ``at``: rows expired now, in an hour and in a day, under one TTL."""

    figures: TableFigures
    at: int = 0

    def _aged(self, place: int) -> Aged:
        aged = self.figures.aged
        return aged[self.at + place] if aged else Aged()

    @property
    def expired(self) -> Aged:
        return self._aged(0)

    @property
    def live(self) -> Aged:
        return Aged(self.figures.rows - self.expired.rows, self.figures.rows_bytes - self.expired.bytes)

    @property
    def due_hour(self) -> int:
        """Live rows that expire within an hour, when nobody accesses them."""
        return self._aged(1).rows - self.expired.rows

    @property
    def due_day(self) -> int:
        return self._aged(2).rows - self.expired.rows


@dataclass(frozen=True)
class StateFigures:
    """The figures of a state, by the short names of its tables."""

    state: StateOf
    tables: Mapping[str, TableFigures]

    @property
    def total(self) -> TableFigures:
        """Of all its tables; ``keys`` are those of the table that the state is about."""
        total = reduce(add, self.tables.values(), TableFigures())
        total.keys = self.tables[self.state.main.name].keys
        return total


@dataclass(frozen=True)
class WhatIf:
    """What a TTL would leave of a state. ``at`` is where its rows are counted in the figures."""

    figures: StateFigures
    ttl: int
    at: int

    @property
    def now(self) -> Ages:
        return Ages(self.figures.total)

    @property
    def after(self) -> Ages:
        return Ages(self.figures.total, self.at)

    @property
    def freed(self) -> Aged:
        """Live rows that would have expired."""
        old_expired, new_expired = self.now.expired, self.after.expired
        return Aged(max(0, new_expired.rows - old_expired.rows), max(0.0, new_expired.bytes - old_expired.bytes))

    @property
    def revived(self) -> Aged:
        """Expired rows, still there, that would be live again."""
        old_expired, new_expired = self.now.expired, self.after.expired
        return Aged(max(0, old_expired.rows - new_expired.rows), max(0.0, old_expired.bytes - new_expired.bytes))


@dataclass(frozen=True)
class StateReport:
    """Figures of states after one micro-batch; ``str()`` of it is the text.

    Attributes:
        snapshot: the checkpoint.
        origin: who wrote the plan.
        states: in the order of the plan.
        what_if: in the order they were requested.
        of: how many states the plan has.
    """

    snapshot: Snapshot
    origin: str
    states: tuple[StateFigures, ...]
    what_if: tuple[WhatIf, ...]
    of: int

    @property
    def total(self) -> TableFigures:
        """Of all states shown."""
        return reduce(add, (s.total for s in self.states), TableFigures())

    def __str__(self) -> str:
        return to_text(self)


def report(
    snapshot: Snapshot, document: PlanDocument, states: Sequence[StateFigures], what_if: Sequence[WhatIf], of: int
) -> StateReport:
    """The report on a checkpoint with this plan."""
    writer = document.written_by
    origin = f"{writer} {document.graph.flink_version}" if writer == "Flink" else writer
    return StateReport(snapshot, origin, tuple(states), tuple(what_if), of)


# ---- as text ---------------------------------------------------------------------------------------------------

_AGES = ("oldest", "median", "newest", "due 1 h", "due 1 d")
_HEAD = ("state", "ttl", "live", "expired", "stored", "keys", "bytes", *_AGES, "runs")


def to_text(state_report: StateReport) -> str:
    """The report for people."""
    snapshot = state_report.snapshot
    count_text = (
        f"{len(state_report.states)} of {state_report.of}"
        if len(state_report.states) != state_report.of
        else str(state_report.of)
    )
    lines = [
        f"{snapshot.folder}: state after micro-batch {snapshot.batch}, "
        f"at {_moment(snapshot.now)} ({_CLOCKS[snapshot.clock]})",
        f"{count_text} {'state' if state_report.of == 1 else 'states'}, {snapshot.key_groups} key groups, "
        f"plan written by {state_report.origin}",
        "",
    ]
    rows: list[tuple[str, ...]] = [_HEAD]
    for state in state_report.states:
        now_millis = snapshot.now
        rows.append((state.state.selector, _ttl(state.state), *_cells(state.total, now_millis)))
        if len(state.tables) > 1:
            rows += [(f"  {name}", "", *_cells(figures, now_millis)) for name, figures in state.tables.items()]
    if len(state_report.states) > 1:
        rows.append(("total", "", *_cells(state_report.total, snapshot.now)))
    lines.append(in_columns(rows, left=2))
    lines.append(
        "oldest, median, newest: time since the last access of live rows; due: live rows that expire within that time "
        "unless they are accessed"
    )
    lines += [note for state in state_report.states for note in _notes(state.state, snapshot.batch)]
    if state_report.what_if:
        lines += ["", *_what_if(state_report.what_if)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _ttl(state: StateOf) -> str:
    return ttl_text(state.config.ttl) if _has_ttl(state) else "none"


def _has_ttl(state: StateOf) -> bool:
    """Whether more than time drops its rows."""
    return state.view is not None and (state.view.source != "time" or state.config.ttl != NEVER)


def _set_live(state: StateOf, batch: int) -> Setting | None:
    """The setting that holds in a micro-batch, where somebody made it other than by the plan."""
    settings = [s for s in state.live.settings if s.since <= batch] if state.live else []
    return settings[-1] if settings and settings[-1].by == "live" else None


def _notes(state: StateOf, batch: int) -> Iterator[str]:
    """What is to be said of a TTL that was set while the job ran, or is going to be, and of how the state ages."""
    setting, request = _set_live(state, batch), state.live.asked if state.live else None
    if setting is not None and state.view is not None:
        plan_text = f"the plan says {ttl_text(state.view.ttl)}"
        yield f"{state.selector}: {ttl_text(setting.ttl)} since micro-batch {setting.since}, {plan_text}"
    if request is not None:
        yield f"{state.selector}: {ttl_text(request.ttl)} from the next micro-batch on, as requested"
    if state.config.by_event_time:
        yield f"{state.selector} ages by event time, relative to the watermark"
    if state.config.reads_refresh:
        yield f"{state.selector}: reads also refresh rows"
    if state.config.finds_expired:
        yield f"{state.selector}: expired rows are found until they are removed"


def _cells(figures: TableFigures, now: int) -> tuple[str, ...]:
    ages = Ages(figures)
    return (
        f"{ages.live.rows:,}",
        f"{ages.expired.rows:,}",
        f"{figures.versions:,}",
        f"{figures.keys:,}",
        bytes_text(figures.bytes),
        *(ago(now, t) for t in (figures.oldest, figures.median, figures.newest)),
        f"{ages.due_hour:,}",
        f"{ages.due_day:,}",
        f"{figures.runs:,}",
    )


def _what_if(guesses: Sequence[WhatIf]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("what if", "ttl", "frees rows", "frees bytes", "brings back", "live", "due 1 h", "due 1 d")
    ]
    for guess in guesses:
        rows.append(
            (
                guess.figures.state.selector,
                f"{ttl_text(guess.figures.state.config.ttl)} -> {ttl_text(guess.ttl)}",
                f"{guess.freed.rows:,}",
                bytes_text(guess.freed.bytes),
                f"{guess.revived.rows:,}",
                _change(guess.now.live.rows, guess.after.live.rows),
                _change(guess.now.due_hour, guess.after.due_hour),
                _change(guess.now.due_day, guess.after.due_day),
            )
        )
    note = "brings back: expired rows that have not been removed yet"
    return [in_columns(rows, left=2), *([note] if any(g.revived.rows for g in guesses) else [])]


def _change(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


def _moment(ms: int) -> str:
    """``2026-01-31 08:05:01.250 UTC``; the number itself where no calendar has it."""
    text = instant_text(ms)
    return f"{ms} ms" if text is None else text + (f".{ms % 1000:03d}" if ms % 1000 else "") + " UTC"


# ---- as data ---------------------------------------------------------------------------------------------------


def to_json(state_report: StateReport) -> dict[str, Any]:
    """The report as JSON-ready data; instants in milliseconds since 1970."""
    snapshot = state_report.snapshot
    return {
        "checkpoint": str(snapshot.folder),
        "batch": snapshot.batch,
        "batchMillis": snapshot.batch_time,
        "nowMillis": snapshot.now,
        "clock": snapshot.clock,
        "keyGroups": snapshot.key_groups,
        "states": [_state_json(s, snapshot.batch) for s in state_report.states],
        "total": _figures_json(state_report.total),
        "whatIf": [_what_if_json(w) for w in state_report.what_if],
    }


def _state_json(figures: StateFigures, batch: int) -> dict[str, Any]:
    state = figures.state
    identity = (
        {"id": state.operator.node.id, "operator": state.operator.node.title, "index": state.index, "name": state.name}
        if state.view is None
        else state.view.to_json()
    )
    lifetime: dict[str, Any] = {}
    if state.view is not None:
        lifetime = {"ttl": format_ttl(state.config.ttl), "ttlMillis": state.config.ttl}
        setting, request = _set_live(state, batch), state.live.asked if state.live else None
        if setting is not None:
            lifetime |= {"source": "live", "sinceBatch": setting.since, "planTtl": format_ttl(state.view.ttl)}
        if request is not None:
            lifetime["asked"] = format_ttl(request.ttl)
    return {
        "selector": state.selector,
        **identity,
        **lifetime,
        **_figures_json(figures.total),
        "tables": [{"name": name, **_figures_json(f)} for name, f in figures.tables.items()],
    }


def _figures_json(figures: TableFigures) -> dict[str, Any]:
    ages = Ages(figures)
    return {
        "liveRows": ages.live.rows,
        "expiredRows": ages.expired.rows,
        "keys": figures.keys,
        "bytes": figures.bytes,
        "liveBytes": round(ages.live.bytes),
        "expiredBytes": round(ages.expired.bytes),
        "storedRows": figures.versions,
        "runs": figures.runs,
        "oldestMillis": figures.oldest,
        "medianMillis": figures.median,
        "newestMillis": figures.newest,
        "dueInHour": ages.due_hour,
        "dueInDay": ages.due_day,
    }


def _what_if_json(guess: WhatIf) -> dict[str, Any]:
    return {
        "selector": guess.figures.state.selector,
        "ttl": {"from": format_ttl(guess.figures.state.config.ttl), "to": format_ttl(guess.ttl)},
        "never": guess.ttl == NEVER,
        "freedRows": guess.freed.rows,
        "freedBytes": round(guess.freed.bytes),
        "revivedRows": guess.revived.rows,
        "revivedBytes": round(guess.revived.bytes),
        "liveRows": guess.after.live.rows,
        "dueInHour": guess.after.due_hour,
        "dueInDay": guess.after.due_day,
    }
