"""Process table functions: what one declares, what a call in a plan gives it, and what it sees of time and state.

Source: FLIP-440; Flink's ``ProcessTableFunction``, ``ArgumentTrait`` and ``TableSemantics``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final, Protocol

from stateplan.common.changelog import INSERT_ONLY, ChangelogMode
from stateplan.common.errors import nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType

ON_TIME, UID = "on_time", "uid"
"""Arguments that every process table function has, behind its own."""


class ArgumentTrait(StrEnum):
    """What a function says of a table argument. One of the first two is needed.

    With ``ROW_SEMANTIC_TABLE`` it is called for each row by itself, and keeps no state. With ``SET_SEMANTIC_TABLE`` it
    is called for the rows of a partition one after the other, with the state and the timers of the partition.
    """

    ROW_SEMANTIC_TABLE = "ROW_SEMANTIC_TABLE"
    SET_SEMANTIC_TABLE = "SET_SEMANTIC_TABLE"
    OPTIONAL_PARTITION_BY = "OPTIONAL_PARTITION_BY"
    PASS_COLUMNS_THROUGH = "PASS_COLUMNS_THROUGH"
    SUPPORT_UPDATES = "SUPPORT_UPDATES"
    REQUIRE_UPDATE_BEFORE = "REQUIRE_UPDATE_BEFORE"
    REQUIRE_FULL_DELETE = "REQUIRE_FULL_DELETE"
    REQUIRE_ON_TIME = "REQUIRE_ON_TIME"


class _NoDefault:
    """Says that an argument has no default. One of a kind, in every process."""

    def __reduce__(self) -> str:
        return "NO_DEFAULT"


NO_DEFAULT: Final = _NoDefault()


@dataclass(frozen=True)
class DeclaredArgument:
    """An argument of a function.

    Attributes:
        traits: the traits of a table; empty for a scalar.
        type: the type of a scalar; None for a table.
        default: of a scalar that need not be given, as a Python value.
    """

    name: str
    traits: frozenset[ArgumentTrait] = frozenset()
    type: LogicalType | None = None
    default: Any = field(default=NO_DEFAULT, compare=False)

    @property
    def is_table(self) -> bool:
        return self.type is None

    @property
    def is_set(self) -> bool:
        return ArgumentTrait.SET_SEMANTIC_TABLE in self.traits

    @property
    def is_optional(self) -> bool:
        return self.default is not NO_DEFAULT

    def has(self, trait: ArgumentTrait) -> bool:
        return trait in self.traits

    @property
    def summary(self) -> str:
        """``input => TABLE t PARTITION BY ..``, ``step => INT``."""
        if self.type is None:
            return f"{self.name} => TABLE t" + (" PARTITION BY .." if self.is_set else "")
        return f"{self.name} => {self.type.summary()}"


@dataclass(frozen=True)
class DeclaredState:
    """A state entry: a value of ``type``, a ROW, ARRAY or MAP, per partition. ``ttl`` is in ms, None for that of the
    job."""

    name: str
    type: LogicalType
    ttl: int | None = None


@dataclass(frozen=True)
class ProcessDeclaration:
    """What a process table function declares besides its result.

    Attributes:
        arguments, states: in the order in which ``eval`` takes them.
        mode: the kinds of rows that it emits.
        timers: whether it has ``on_timer``.
    """

    arguments: tuple[DeclaredArgument, ...]
    states: tuple[DeclaredState, ...] = ()
    mode: ChangelogMode = INSERT_ONLY
    timers: bool = False

    @property
    def tables(self) -> tuple[DeclaredArgument, ...]:
        return tuple(a for a in self.arguments if a.is_table)

    @property
    def scalars(self) -> tuple[DeclaredArgument, ...]:
        return tuple(a for a in self.arguments if not a.is_table)

    @property
    def has_sets(self) -> bool:
        """Whether rows are called by partition."""
        return any(a.is_set for a in self.arguments)

    @property
    def passes_through(self) -> bool:
        """Whether its rows begin with the columns of the row that they are made of."""
        return any(a.has(ArgumentTrait.PASS_COLUMNS_THROUGH) for a in self.arguments)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all arguments, those that every function has included."""
        return (*(a.name for a in self.arguments), ON_TIME, UID)


@dataclass(frozen=True)
class TableSemantics:
    """A table argument, as the call has it.

    Attributes:
        data_type: ROW of the table.
        partition_by_columns: positions of the columns of PARTITION BY.
        order_by_columns: positions of the columns of ORDER BY.
        order_by_directions: per column of ORDER BY, such as ``ASC_NULLS_LAST``.
        time_column: the position of the column of ``on_time``; -1 for none.
        changelog_mode: the kinds of rows that the table has.
    """

    data_type: LogicalType
    partition_by_columns: tuple[int, ...] = ()
    order_by_columns: tuple[int, ...] = ()
    order_by_directions: tuple[str, ...] = ()
    time_column: int = -1
    changelog_mode: ChangelogMode = INSERT_ONLY


_EPOCH = datetime(1970, 1, 1)


def time_of(millis: int, has_zone: bool) -> datetime:
    """An instant, ms since 1970, as a datetime, in UTC with ``has_zone``; the nearest one that Python has."""
    try:
        moment = _EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        moment = datetime.max if millis > 0 else datetime.min
    return moment.replace(tzinfo=UTC) if has_zone else moment


def millis_of(time: datetime | int) -> int:
    """Milliseconds since 1970 of a datetime, which is one in UTC unless it says otherwise.

    Raises:
        TypeError: for what is neither a datetime nor a whole number.
    """
    if isinstance(time, int) and not isinstance(time, bool):
        return time
    if not isinstance(time, datetime):
        raise TypeError(f"a time is a datetime or milliseconds since 1970, and not {time!r:.60}")
    plain = time.astimezone(UTC).replace(tzinfo=None) if time.tzinfo is not None else time
    return (plain - _EPOCH) // timedelta(milliseconds=1)


class StateRow:
    """The value of a state entry of type ROW. Its fields are attributes and items; all are None at the beginning."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.__dict__.update(fields)

    def _unknown_field(self, name: str) -> AttributeError:
        hint = nearest(name, vars(self))
        return AttributeError(f"the state has no field '{name}'" + (f": {hint}" if hint else ""))

    def __getattr__(self, name: str) -> Any:
        raise self._unknown_field(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise self._unknown_field(name)
        self.__dict__[name] = value

    def __getitem__(self, key: str) -> Any:
        return getattr(self, key)

    def __setitem__(self, key: str, value: Any) -> None:
        setattr(self, key, value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StateRow) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment] # not hashable

    def __repr__(self) -> str:
        return f"StateRow({', '.join(f'{n}={v!r}' for n, v in vars(self).items())})"


class Session(Protocol):
    """What happens to a context: one call of a function, or many of one partition."""

    def register(self, name: str | None, time: int) -> None: ...

    def clear_timer(self, timer: str | int) -> None: ...

    def clear_timers(self) -> None: ...

    def clear_state(self, name: str | None) -> None: ...


class TimeContext:
    """Time and timers; times are datetimes, or milliseconds since 1970 if the function asked its context for
    ``int``."""

    def __init__(self, context: ProcessContext, millis: bool) -> None:
        self._context, self._millis = context, millis

    def _as_declared(self, millis: int | None) -> Any:
        if millis is None or self._millis:
            return millis
        return time_of(millis, self._context.zoned)

    def time(self) -> Any:
        """The time of the row, in the column of ``on_time``, or of the timer; None if there is none."""
        return self._as_declared(self._context.millis)

    def current_watermark(self) -> Any:
        """How far event time has advanced: no row with a time at or before it is expected. None before the first
        one."""
        return self._as_declared(self._context.watermark)

    def register_on_time(self, *timer: Any) -> None:
        """``register_on_time(time)`` or ``register_on_time(name, time)``: calls ``on_timer`` once the watermark reaches
        a time. A timer replaces one of its name, or an unnamed one of its time.

        Raises:
            TypeError: for a value that is not a time.
            ValueError: for a function without ``on_timer``, or without partitions.
        """
        if len(timer) not in (1, 2) or (len(timer) == 2 and not isinstance(timer[0], str)):
            raise TypeError("a timer has a time, or a name and a time")
        self._context.session.register(timer[0] if len(timer) == 2 else None, millis_of(timer[-1]))

    def clear_timer(self, timer: Any) -> None:
        """Removes the timer of a name, or the unnamed one of a time, if it is there."""
        self._context.session.clear_timer(timer if isinstance(timer, str) else millis_of(timer))

    def clear_all_timers(self) -> None:
        """Removes all timers of the partition."""
        self._context.session.clear_timers()


class ProcessContext:
    """The first argument of ``eval`` and ``on_timer`` of a process table function.

    Attributes:
        changelog_mode: the kinds of rows that the function may emit.
    """

    def __init__(self, tables: Mapping[str, TableSemantics], mode: ChangelogMode, zoned: bool) -> None:
        self._tables = tables
        self.changelog_mode = mode
        self.zoned = zoned
        self.session: Session
        self.millis: int | None = None
        self.watermark: int | None = None
        self.timer: str | None = None

    def __repr__(self) -> str:
        return "the context"

    def time_context(self, conversion: type = datetime) -> TimeContext:
        """Time and timers, in datetimes, or in milliseconds since 1970 for ``int``."""
        return TimeContext(self, conversion is int)

    def table_semantics_for(self, argument: str) -> TableSemantics:
        """How the call gives a table argument. Raises KeyError for a name that is none."""
        return self._tables[argument]

    def current_timer(self) -> str | None:
        """In ``on_timer`` the name of the timer; None for one without a name."""
        return self.timer

    def clear_state(self, name: str) -> None:
        """Removes the value of a state entry of the partition. Raises ValueError for a name that is none."""
        self.session.clear_state(name)

    def clear_all_state(self) -> None:
        """Removes the values of all state entries of the partition."""
        self.session.clear_state(None)

    def clear_all_timers(self) -> None:
        """Removes all timers of the partition."""
        self.session.clear_timers()

    def clear_all(self) -> None:
        """Removes all that is kept of the partition."""
        self.clear_all_state()
        self.clear_all_timers()
