"""Accumulators that earlier releases pickled, read without running what they name.

Whatever a pickle names becomes a :class:`_Stub`, which records what is asked of it and does nothing. Plain values and
objects of the function's own classes are made of those records; anything else is refused.
"""

from __future__ import annotations

import enum
import io
import pickle
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from stateplan.common.changelog import RowKind
from stateplan.common.values.row import Row
from stateplan.runtime.kernels.common.accumulator_bytes import (
    FACTORIES,
    Classes,
    UnreadableError,
    blank,
    restore_state,
)

MARK = b"\x80"
"""The first byte of every pickle that was kept; none of JSON."""


class _Stub:
    """What a pickle makes of something that it names: the arguments, the state and the items that it gives it."""

    def __new__(cls, *arguments: Any, **fields: Any) -> _Stub:
        instance = super().__new__(cls)
        instance.__dict__.update(arguments=arguments, named=fields, state=None, items=[], pairs=[])
        return instance

    def __init__(self, *arguments: Any, **fields: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.__dict__["state"] = state

    def append(self, item: Any) -> None:
        self.__dict__["items"].append(item)

    def extend(self, items: Any) -> None:
        self.__dict__["items"].extend(items)

    add = append

    def __setitem__(self, key: Any, value: Any) -> None:
        self.__dict__["pairs"].append((key, value))

    def __call__(self, *arguments: Any) -> _Stub:
        return _CallStub(self, *arguments)


class _CallStub(_Stub):
    """What a pickle makes by calling what it has made: the first argument."""


class _Inert(pickle.Unpickler):
    """Finds nothing: every name gives a class of its own that does nothing."""

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.names: dict[type, str] = {}

    def find_class(self, module: str, name: str) -> Any:
        inert_class = type("_Inert", (_Stub,), {})
        self.names[inert_class] = f"{module}.{name}"
        return inert_class


def unpickled(data: bytes, classes: Callable[[], Classes]) -> Any:
    """The accumulator in a pickle.

    Raises:
        UnreadableError: the pickle is damaged, or names something that is neither plain data nor a class of the
            function.
    """
    reader = _Inert(data)
    try:
        return _Maker(reader.names, classes).value(reader.load())
    except UnreadableError:
        raise
    except Exception as cause:  # whatever damaged bytes lead to
        raise UnreadableError(f"{type(cause).__name__}: {cause}"[:200]) from cause


class _Maker:
    """Makes values of what was read. What a pickle has twice is made once."""

    def __init__(self, names: dict[type, str], classes: Callable[[], Classes]) -> None:
        self._names = names
        self._classes = classes
        self._values_by_id: dict[int, Any] = {}

    def value(self, content: Any) -> Any:
        if id(content) in self._values_by_id:
            return self._values_by_id[id(content)]
        kind = type(content)
        if kind is tuple or kind is frozenset:
            return kind(map(self.value, content))
        if kind in (list, set, dict):
            value: Any = kind()
            self._values_by_id[id(content)] = value
            if kind is dict:
                value.update((self.value(k), self.value(v)) for k, v in content.items())
            else:
                (value.extend if kind is list else value.update)(map(self.value, content))
            return value
        if isinstance(content, type):
            name = self._names.get(content, "")
            if name in _NAMES:
                return _NAMES[name]
            raise UnreadableError(f"it names {name[:100]}")
        if not isinstance(content, _Stub):
            return content
        if kind is _CallStub:
            return self._zone(*content.__dict__["arguments"])
        name = self._names[kind]
        arguments = [self.value(a) for a in content.__dict__["arguments"]]
        if name in _PLAIN:
            value = _PLAIN[name](*arguments)
            if isinstance(value, (deque, dict)):
                self._values_by_id[id(content)] = value
            value = self._values_by_id[id(content)] = self._with_content(value, content)
            return value
        return self._object(content, name, arguments)

    def _with_content(self, value: Any, content: _Stub) -> Any:
        if content.__dict__["items"]:
            value.extend(map(self.value, content.__dict__["items"]))
        for key, item in content.__dict__["pairs"]:
            value[self.value(key)] = self.value(item)
        state = self.value(content.__dict__["state"])
        if isinstance(value, _Later):
            return value.maker(state)
        if isinstance(value, _Type):
            value.detail(state)
        if isinstance(value, Row) and state is not None:
            kind = state.get("_kind", RowKind.INSERT)
            return Row.of(tuple(state.get("_names", ())), tuple(value)).of_kind(kind)
        return value

    def _zone(self, callee: _Stub, *arguments: Any) -> ZoneInfo:
        """The only thing that is called so is ``getattr(ZoneInfo, "_unpickle")``."""
        arguments_of_callee = callee.__dict__["arguments"]
        names = [self._names.get(one, "") for one in (type(callee), *arguments_of_callee[:1]) if isinstance(one, type)]
        if names != ["builtins.getattr", "zoneinfo.ZoneInfo"] or arguments_of_callee[1:] != ("_unpickle",):
            raise UnreadableError("it calls what it has made")
        return ZoneInfo(arguments[0])

    def _object(self, content: _Stub, name: str, arguments: list[Any]) -> Any:
        cls = self._classes().get(name)
        if cls is None:
            raise UnreadableError(f"it names {name[:100]}")
        if issubclass(cls, enum.Enum):
            return cls(*arguments)
        if arguments and not issubclass(cls, tuple):
            raise UnreadableError(f"it calls {name[:100]}")
        value = blank(cls, arguments)
        self._values_by_id[id(content)] = value
        if content.__dict__["items"]:
            list.extend(value, map(self.value, content.__dict__["items"]))
        for key, item in content.__dict__["pairs"]:
            dict.__setitem__(value, self.value(key), self.value(item))
        state = self.value(content.__dict__["state"])
        if isinstance(state, tuple) and len(state) == 2 and not hasattr(cls, "__setstate__"):
            state = {**(state[0] or {}), **(state[1] or {})}
        return restore_state(value, state) if state is not None else value


class _Type:
    """A type of NumPy: its text, then the order of its bytes and, of times, their unit."""

    def __init__(self, text: Any, *_: Any) -> None:
        if not isinstance(text, str) or text[:1] not in "biufcSUmM":
            raise UnreadableError(f"the type {str(text)[:50]} of NumPy")
        self.text = text

    def detail(self, state: Any) -> None:
        order = state[1] if state is not None and state[1] in ("<", ">") else ""
        unit = state[8][1] if state is not None and self.text[0] in "mM" else None
        self.text = f"{order}{self.text}" + (f"[{unit[1]}{unit[0].decode()}]" if unit else "")


class _Later:
    """What is made of its state.

    Args:
        maker: makes it.
    """

    def __init__(self, maker: Callable[[Any], Any]) -> None:
        self.maker = maker


def _array_of(state: Any) -> Any:
    _, shape, kind, by_column, data = state
    return _array(data, kind, shape, "F" if by_column else "C")


def _array(data: Any, kind: Any, shape: Any, order: Any) -> Any:
    import numpy as np

    if not isinstance(kind, _Type) or not isinstance(data, (bytes, bytearray)):
        raise UnreadableError("an array of NumPy of other objects")
    return np.frombuffer(bytes(data), kind.text).reshape(shape, order="F" if order == "F" else "C").copy(order="K")


def _number(kind: Any, data: Any) -> Any:
    return _array(data, kind, (1,), "C")[0]


_PLAIN: dict[str, Callable[..., Any]] = {
    "builtins.set": set,
    "builtins.frozenset": frozenset,
    "builtins.bytearray": bytearray,
    "builtins.complex": complex,
    "_codecs.encode": lambda text, name="utf-8": text.encode("latin-1"),
    "collections.deque": deque,
    "collections.Counter": Counter,
    "collections.OrderedDict": OrderedDict,
    "collections.defaultdict": defaultdict,
    "datetime.date": date,
    "datetime.datetime": datetime,
    "datetime.time": time,
    "datetime.timedelta": timedelta,
    "datetime.timezone": timezone,
    "decimal.Decimal": Decimal,
    "fractions.Fraction": Fraction,
    "stateplan.common.values.row.Row": Row,
    "stateplan.common.changelog.RowKind": RowKind,
    "uuid.UUID": lambda: _Later(lambda state: uuid.UUID(int=state["int"])),
    "numpy.dtype": _Type,
    **{
        f"numpy.{core}.{name}": make
        for core in ("_core", "core")
        for name, make in (
            ("multiarray._reconstruct", lambda *_: _Later(_array_of)),
            ("multiarray.scalar", _number),
            ("numeric._frombuffer", _array),
        )
    },
}
"""What makes plain values, by its name in a pickle."""

_NAMES: dict[str, Any] = {f"builtins.{name}": factory for name, factory in FACTORIES.items()} | {"numpy.ndarray": None}
"""What may be named without being called."""
