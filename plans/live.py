"""New TTLs for a job that runs, or that is stopped: requests to its checkpoint, and their outcome.

Error codes: CKPT001, CKPT002, CKPT005, CKPT034.
"""

from __future__ import annotations

import getpass
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stateplan.common.errors import CheckpointError, PlanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, nearest_folder
from stateplan.common.readable import in_columns
from stateplan.common.ttl import NEVER, format_ttl
from stateplan.plans.document import PlanDocument, TtlGiven, given_ttl, ttl_text
from stateplan.plans.edit import plan_edit
from stateplan.plans.selector_text import Assignment, parse_selector
from stateplan.plans.states import StateView
from stateplan.runtime.checkpoint.live_ttl import Record, StateTtl, TtlRequest, editing, read_ttls
from stateplan.runtime.checkpoint.locks import Holder, running_writer


@dataclass(frozen=True)
class LiveChange:
    """A request for the TTL of one state.

    Attributes:
        state: the state as the checkpoint's plan has it.
        label: a selector for it.
        old: its TTL in milliseconds, in the last micro-batch.
        pending: what was requested before and has not been taken in; None for nothing.
        ttl: its TTL then.
        at: when it was requested, in milliseconds since 1970.
        since: the first micro-batch that saw it; None while none has.
        overtaken: whether somebody asked for something else before one did.
    """

    state: StateView
    label: str
    old: int
    pending: int | None
    ttl: int
    at: int = 0
    since: int | None = None
    overtaken: bool = False

    @property
    def is_news(self) -> bool:
        """Whether this is news: not what holds, and not what was requested already."""
        return self.ttl != (self.old if self.pending is None else self.pending)

    @property
    def awaited(self) -> bool:
        """Whether a micro-batch has to take it in."""
        return self.ttl != self.old and self.since is None and not self.overtaken

    @property
    def shorter(self) -> bool:
        """Whether rows are forgotten that would have been known."""
        return self.ttl > NEVER and (self.old == NEVER or self.ttl < self.old)

    @property
    def text(self) -> str:
        """``1 h -> 1 d, from the next micro-batch on``."""
        old, new = ttl_text(self.old), ttl_text(self.ttl)
        if self.since is not None:
            return f"{old} -> {new}, since micro-batch {self.since}"
        if self.overtaken:
            return f"{old} -> {new}, replaced by a later request"
        if self.awaited:
            repetition = "" if self.is_news else ", already requested"
            replacement = f", not {ttl_text(self.pending)}" if self.pending is not None and self.is_news else ""
            return f"{old} -> {new}{replacement}, from the next micro-batch on{repetition}"
        return f"{old}, unchanged" + ("" if self.pending is None else f": {ttl_text(self.pending)} is cancelled")

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "state": self.label,
            **self.state.identity,
            "old": format_ttl(self.old),
            "oldMillis": self.old,
            "new": format_ttl(self.ttl),
            "newMillis": self.ttl,
            "plan": format_ttl(self.state.ttl),
            "planMillis": self.state.ttl,
            "changed": self.is_news,
            "since": self.since,
        }


@dataclass(frozen=True)
class LiveEdit:
    """Changes of TTLs that a checkpoint is to get.

    Attributes:
        folder: the checkpoint.
        changes: per state, in the order of the plan.
        writer: the process whose job will take it in; None if no job runs.
    """

    folder: AnyPath
    changes: tuple[LiveChange, ...]
    writer: Holder | None

    def to_text(self) -> str:
        """A line per state."""
        return in_columns([(change.label, change.state.name, change.text) for change in self.changes])

    def to_json(self) -> dict[str, Any]:
        """JSON-ready data."""
        return {
            "checkpoint": str(self.folder),
            "running": self.writer is not None,
            "changed": any(change.is_news for change in self.changes),
            "changes": [change.to_json() for change in self.changes],
        }


def plan_in(folder: AnyPath) -> PlanDocument:
    """The plan in a checkpoint. Raises PlanError, or OSError where it is not on local disk."""
    path = folder / "plan.json"
    if isinstance(path, Path):
        return PlanDocument.load(str(path))
    return PlanDocument.from_bytes(path.read_bytes(), str(path))


def checkpoint_plan(folder: AnyPath) -> PlanDocument:
    """The plan of the last run on the checkpoint in ``folder``.

    Raises:
        CheckpointError: CKPT001, there is no such directory; CKPT002, it is not a checkpoint; CKPT005, damaged.
    """
    try:
        entries = {p.name for p in folder.iterdir()}
    except OSError as cause:
        raise CheckpointError(
            "CKPT001",
            folder=folder,
            strerror=cause.strerror or cause,
            expected="the directory that 'execution.checkpointing.dir' named",
            hint=nearest_folder(folder),
        ) from cause
    if "stateplan.json" not in entries:
        raise CheckpointError("CKPT002", folder=folder)
    try:
        return plan_in(folder)
    except PlanError as cause:
        raise CheckpointError(
            "CKPT005.damaged_file", file=folder / "plan.json", why=cause.message, place=cause.place
        ) from cause


def user() -> str:
    """Who uses this process; empty if the system does not say."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return ""


def ask(
    folder: AnyPath, assignments: Sequence[Assignment], *, write: bool = True, user_name: str | None = None
) -> LiveEdit:
    """Asks for other TTLs; the next micro-batch takes them in, whether the job runs or is to be started.

    Args:
        folder: the checkpoint.
        assignments: TTLs for states.
        write: whether to ask, and not only to work out what that would do.
        who: is recorded as the one who asks; by default the user of this process.

    Raises:
        PlanError: as :func:`plans.edit.plan_edit`.
        CheckpointError: as :func:`checkpoint_plan`; CKPT031 to CKPT033, the record cannot be read or written.
    """
    document = checkpoint_plan(folder)
    requests = [change for change in plan_edit(document, assignments).changes if change.in_request]
    changes: list[LiveChange] = []

    def work(record: Record) -> None:
        for change in requests:
            view = change.state
            state_ttl = record.get((view.uid, view.index)) or StateTtl(view.uid, view.index, change.label, view.ttl)
            requested_ttl = None if state_ttl.asked is None else state_ttl.asked.ttl
            live_change = LiveChange(view, change.label, state_ttl.now, requested_ttl, change.ttl)
            if live_change.is_news:
                now_millis = time.time_ns() // 1_000_000
                request = (
                    TtlRequest(change.ttl, now_millis, user() if user_name is None else user_name)
                    if live_change.awaited
                    else None
                )
                record[state_ttl.key] = state_ttl = replace(state_ttl, asked=request)
            changes.append(replace(live_change, at=0 if state_ttl.asked is None else state_ttl.asked.at))

    if write:
        with editing(folder) as record:
            work(record)
    else:
        work(read_ttls(folder))
    return LiveEdit(folder, tuple(changes), running_writer(folder))


def taken_in(edit: LiveEdit) -> LiveEdit:
    """The edit with since when each of its TTLs holds, as far as it does. Raises CheckpointError CKPT031."""
    record = read_ttls(edit.folder)
    changes = []
    for change in edit.changes:
        state_ttl = record.get((change.state.uid, change.state.index))
        if change.awaited and (state_ttl is None or state_ttl.asked is None or state_ttl.asked.at != change.at):
            mine = (change.ttl, change.at)
            settings = [] if state_ttl is None else [s.since for s in state_ttl.settings if (s.ttl, s.at) == mine]
            change = replace(change, since=settings[-1] if settings else None, overtaken=not settings)
        changes.append(change)
    return replace(edit, changes=tuple(changes), writer=running_writer(edit.folder))


def wait_for(edit: LiveEdit, seconds: float) -> LiveEdit:
    """Waits until a micro-batch has taken in all that was requested.

    Raises:
        CheckpointError: CKPT034, that has not happened in ``seconds``; CKPT031, the record is damaged.
    """
    deadline = time.monotonic() + seconds
    while any(change.awaited for change in edit.changes):
        if time.monotonic() >= deadline:
            labels = ", ".join(change.label for change in edit.changes if change.awaited)
            runs = "is running, but has had no micro-batch since" if edit.writer else "does not run"
            raise CheckpointError("CKPT034", labels=labels, seconds=seconds, runs=runs)
        time.sleep(0.1)
        edit = taken_in(edit)
    return edit


def set_live_ttls(folder: AnyPath, ttls: Mapping[str, TtlGiven], seconds: float | None = None) -> LiveEdit:
    """Asks for TTLs by selector, ``{"join.right": "2 h"}``, and waits for ``seconds``, if they are given.

    Raises:
        PlanError: as :func:`ask`, :func:`~plans.selector_text.parse_selector` and :func:`given_ttl`.
        CheckpointError: as :func:`ask` and :func:`wait_for`.
    """
    edit = ask(folder, [Assignment(parse_selector(selector), given_ttl(ttl)) for selector, ttl in ttls.items()])
    return edit if seconds is None else wait_for(edit, seconds)
