"""How long each state lives from which micro-batch on: ``ttl.json`` of a checkpoint.

The file is read and written by the driver, and by whoever asks for another TTL while a job runs. A request is taken
in by the driver before the tasks of the next micro-batch that has not been tried yet; since which one is in the file
before they run. So a micro-batch that is repeated after a failure sees what it saw before, and so does one that was
tried before the plan was edited.

To workers the TTLs go as a local property of Spark's, ``TTLS`` in ``runtime/spark/tasks``: it says where they differ
from the plan.

Codes: CKPT031 to CKPT033.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, TypeAdapter, ValidationError

from stateplan.common.errors import CheckpointError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import AnyPath, write_whole
from stateplan.common.ttl import MAX_TTL, format_ttl
from stateplan.runtime.batch_ttls import ttls_text
from stateplan.runtime.checkpoint.locks import locked

if TYPE_CHECKING:
    from stateplan.runtime.jobgraph import OperatorSpec

_FILE = "ttl.json"
_LOCK = "ttl.lock"
_FORMAT = 1
_MOST_SETTINGS = 100
"""This number of settings of a state is kept, and the shortest of the earlier ones."""

Key = tuple[str, int]
"""A state: uid of the operator, number among its states."""


Number = Annotated[int, Field(strict=True, ge=0, le=MAX_TTL)]


@dataclass(frozen=True)
class Setting:
    """A TTL and the micro-batch it holds from.

    Attributes:
        ttl: milliseconds, 0 for never.
        since: id of the first micro-batch that saw it.
        by: ``plan``, or ``live`` for one that was requested.
        at: when it was started with, or requested, in milliseconds since 1970.
        who: the user who requested it; empty for the plan, and where nobody noted it.
    """

    ttl: Number
    since: Number
    by: str
    at: Number
    who: str = ""


@dataclass(frozen=True)
class TtlRequest:
    """A TTL that no micro-batch has taken in yet; ``at`` in milliseconds since 1970, and who asked for it."""

    ttl: Number
    at: Number
    who: str = ""


@dataclass(frozen=True)
class StateTtl:
    """How long one state lives.

    Attributes:
        uid: the operator.
        index: which of its states.
        name: a selector for it.
        plan: what the plan of the last run says.
        settings: what holds from which micro-batch on, in order; empty before the first run.
        asked: what the next micro-batch brings.
    """

    uid: str
    index: Number
    name: str
    plan: Number
    settings: tuple[Setting, ...] = ()
    asked: TtlRequest | None = None

    @property
    def key(self) -> Key:
        return self.uid, self.index

    @property
    def now(self) -> int:
        """The TTL of the last micro-batch, or of the first one to come."""
        return self.settings[-1].ttl if self.settings else self.plan

    @property
    def is_live(self) -> bool:
        """Whether somebody asked for the TTL that holds, other than by the plan."""
        return bool(self.settings) and self.settings[-1].by == "live"

    @property
    def shortest(self) -> int:
        """The shortest TTL that the state has had, ms; 0 if its rows have never expired."""
        return min((s.ttl for s in self.settings if s.ttl), default=self.plan)

    def during(self, batch: int) -> int:
        """The TTL in a micro-batch."""
        ttls = [s.ttl for s in self.settings if s.since <= batch]
        return ttls[-1] if ttls else self.settings[0].ttl if self.settings else self.plan

    def add(self, setting: Setting) -> StateTtl:
        """With another setting, in place of those that no micro-batch has seen by then."""
        earlier = [s for s in self.settings if s.since < setting.since]
        if not earlier or earlier[-1].ttl != setting.ttl or earlier[-1].by != setting.by:
            earlier.append(setting)
        return replace(self, settings=(*_shortest(earlier[:-_MOST_SETTINGS]), *earlier[-_MOST_SETTINGS:]))

    def for_state(self, key: Key) -> StateTtl:
        """For the state ``key`` of another checkpoint, which takes over the rows: the last setting, and the shortest
        one, by which some may have expired."""
        settings = (*_shortest(self.settings[:-1]), *self.settings[-1:])
        return replace(self, uid=key[0], index=key[1], settings=tuple(replace(s, since=0) for s in settings))


def _shortest(settings: Sequence[Setting]) -> Sequence[Setting]:
    """The setting with the shortest TTL; nothing where rows have never expired."""
    return sorted((s for s in settings if s.ttl), key=lambda s: s.ttl)[:1]


_STATES = TypeAdapter(list[StateTtl])


class Record(dict[Key, StateTtl]):
    """What the file says.

    Attributes:
        writes: how often it has been written.
    """

    writes: int = 0


def read_ttls(folder: AnyPath) -> Record:
    """What the checkpoint in ``folder`` says; nothing before its first run.

    Raises:
        CheckpointError: CKPT031, the file is damaged.
    """
    path = folder / _FILE
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != _FORMAT:
            raise _damaged(path, f"it has format {data['format']!r:.40}, this version reads {_FORMAT}")
        states = _STATES.validate_python(data["states"])
        record = Record({state.key: state for state in states})
        record.writes = int(data.get("written", 0))
        if not {"written", "sum"}.isdisjoint(data) and data.get("sum") != _sum(record.writes, data["states"]):
            raise _damaged(path, "its checksum is another one")
    except FileNotFoundError:
        return Record()
    except ValidationError as cause:
        first = cause.errors()[0]
        raise _damaged(path, f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from cause
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as cause:
        problem = f"{cause} is missing" if isinstance(cause, KeyError) else str(cause)
        raise _damaged(path, problem) from cause
    return record


def _sum(batch: int, states: object) -> int:
    return zlib.crc32(json.dumps([batch, states]).encode())


def _damaged(path: AnyPath, why: str) -> CheckpointError:
    return CheckpointError("CKPT031", path=path, why=why)


@contextmanager
def editing(folder: AnyPath, wait: float = 10.0) -> Iterator[Record]:
    """The record of the checkpoint in ``folder``, which nobody else changes meanwhile; written at the end when it is
    another one then.

    Raises:
        CheckpointError: CKPT031, it is damaged; CKPT032, it cannot be written; CKPT033, somebody else keeps it for
            ``wait`` seconds.
    """
    try:
        with locked(folder / _LOCK, wait) as has_lock:
            if not has_lock:
                raise CheckpointError("CKPT033", folder=folder)
            record = read_ttls(folder)
            before = dict(record)
            yield record
            if record != before:
                states = _STATES.dump_python(list(record.values()), mode="json")
                record.writes += 1
                seal = {"written": record.writes, "sum": _sum(record.writes, states)}
                data = {"format": _FORMAT, **seal, "states": states}
                write_whole(folder / _FILE, json.dumps(data, indent=1) + "\n", lasting=True)
    except OSError as cause:
        raise CheckpointError(
            "CKPT032", folder=folder, strerror=cause.strerror or cause, file=folder / _FILE
        ) from cause


@dataclass
class LiveTtls:
    """The driver's side of a running job.

    Attributes:
        folder: the checkpoint.
        operators: the operators of the job.
        last_begun: the last micro-batch that an earlier run began, -1 for none.
        tell: receives what changes and what goes wrong, a line each.
    """

    folder: AnyPath
    operators: Sequence[OperatorSpec]
    last_begun: int
    tell: Callable[[str], None]
    _record: Record = field(default_factory=Record)
    _stamp: tuple[int, ...] | None = None
    _seen_status: tuple[int, ...] | None = None
    _sent_text: str = ""
    _steady: bool = False

    def begin(self, came: Mapping[str, str], names: Mapping[Key, str]) -> None:
        """Brings the record to the plan that is to run.

        A TTL that the plan says otherwise than the plan before holds from the first micro-batch that has not been
        tried. One that is the same leaves alone what was set live. What operators had that the job has not any more
        stays until :meth:`settle`.

        Args:
            came: for each operator that continues with existing state, by uid, the uid it had.
            names: selectors for states.

        Raises:
            CheckpointError: CKPT031 to CKPT033.
        """
        now = time.time_ns() // 1_000_000
        with editing(self.folder) as record:
            before = dict(record)
            for spec in self.operators:
                for index, config in enumerate(spec.ttl):
                    name = names.get((spec.uid, index), f"{spec.name}.{index}")
                    old = before.get((came.get(spec.uid, ""), index))
                    state = replace(old or StateTtl("", index, "", config.ttl), uid=spec.uid, name=name)
                    if state.plan != config.ttl or not state.settings:
                        if state.is_live and state.now not in (config.ttl, state.plan):
                            self.tell(
                                f"{name}: {_words(config.ttl)}, from the edited plan; it replaces "
                                f"{_words(state.now)}, which was set live"
                            )
                        state = replace(state, plan=config.ttl).add(
                            Setting(config.ttl, self.last_begun + 1, "plan", now)
                        )
                    record[state.key] = state
                    self._describe(state)
        self._record = record

    def _describe(self, state: StateTtl) -> None:
        if state.asked is not None:
            self.tell(f"{state.name}: {_words(state.asked.ttl)} from the next micro-batch on, as requested")
        elif state.is_live and state.now != state.plan:
            self.tell(
                f"{state.name}: {_words(state.now)}, set live in micro-batch {state.settings[-1].since}; the plan has "
                f"{_words(state.plan)} (to change the plan: stateplan plan set-ttl PLAN "
                f"'{state.name}={format_ttl(state.now)}')"
            )

    def settle(self) -> None:
        """Removes the records of operators that are not in the job. Raises CheckpointError CKPT031 to CKPT033."""
        mine = {o.uid for o in self.operators}
        with editing(self.folder) as record:
            for key in [k for k in record if k[0] not in mine]:
                del record[key]
        self._record = record
        self._stamp = self._look()

    @property
    def writes(self) -> int:
        """How often the file has been written."""
        return self._record.writes

    def ttl(self, key: Key) -> int:
        """The TTL of a state in the last micro-batch, in ms; 0 (never expires) for a state without a record."""
        state_ttl = self._record.get(key)
        return 0 if state_ttl is None else state_ttl.now

    def restart(self) -> None:
        """Called when another query of the job begins. Its tasks have not received any TTL yet."""
        self._sent_text, self._steady = "", False

    def take_in(self, batch: int) -> str | None:
        """Called before the tasks of a micro-batch. Applies the requests for new TTLs, unless the micro-batch is
        repeated.

        If the file cannot be read or written, one message reports it, and the job continues with its current TTLs.

        Returns:
            The text of the local property ``TTLS`` for the micro-batch; None if the property does not change.
        """
        stamp = self._look()
        if stamp == self._stamp and self._steady:
            return None
        if stamp != self._stamp or batch > self.last_begun:
            try:
                self._read(batch)
                self._stamp = self._look()
            except CheckpointError as error:
                if error.code != "CKPT033" and stamp != self._seen_status:
                    self._seen_status = stamp
                    self.tell(f"{error.message}; the job continues with its current TTLs")
        self._steady = not any(s.asked or s.settings[-1].since > batch for s in self._record.values() if s.settings)
        text = self._text(batch)
        if text == self._sent_text:
            return None
        self._sent_text = text
        return text

    def _look(self) -> tuple[int, ...] | None:
        path = self.folder / _FILE
        try:
            if not isinstance(path, Path):  # times of other file systems may be whole seconds
                return (hash(path.read_bytes()),)
            status = path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self, batch: int) -> None:
        with editing(self.folder, wait=0.0) as record:
            for key, mine in self._record.items():
                state = record.setdefault(key, mine)
                if state.asked is not None and batch > self.last_begun:
                    new_state = state.add(Setting(state.asked.ttl, batch, "live", state.asked.at, state.asked.who))
                    record[key] = replace(new_state, asked=None)
        for key, state in record.items():
            if state.settings and key in self._record and state.settings != self._record[key].settings:
                self.tell(f"{state.name}: {_words(state.now)} since micro-batch {state.settings[-1].since}")
        self._record = record

    def _text(self, batch: int) -> str:
        """The TTLs of a micro-batch that differ from those of the plan."""
        plan_ttls = {(spec.uid, index): config.ttl for spec in self.operators for index, config in enumerate(spec.ttl)}
        ttls = {key: self._record[key].during(batch) for key in plan_ttls if key in self._record}
        return ttls_text({key: ttl for key, ttl in ttls.items() if ttl != plan_ttls[key]})


def _words(ttl: int) -> str:
    return f"ttl {format_ttl(ttl)}" if ttl else "never expires"
