"""Accumulators of Python aggregate functions as bytes without code: JSON, with a tag where JSON has no such value.

To read them imports nothing and calls nothing that they name. An object of a class is its attributes, and the class is
one that the code of the function refers to. Releases before this form pickled accumulators:
:mod:`old_accumulators <stateplan.runtime.kernels.common.old_accumulators>` reads those.
"""

from __future__ import annotations

import base64
import enum
import inspect
import io
import json
import sys
import uuid
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

from stateplan.common.changelog import RowKind
from stateplan.common.values.row import Row

_SCALARS = frozenset({type(None), bool, int, float, str})
FACTORIES: dict[str, Any] = {t.__name__: t for t in (int, float, str, bool, list, dict, set, tuple, bytes)}
"""What a ``defaultdict`` may make its values of."""
_CONTAINERS: tuple[Any, ...] = (list, dict, set, tuple)
"""Of which a class of a function may be a subclass."""
_LONGEST_INT = 1 << 64
_FRAMES = ("pandas", "polars", "pyarrow")


class UnstorableError(TypeError):
    """A value that has no form without code."""


class UnreadableError(ValueError):
    """Bytes that are no accumulator of this function."""


Classes = Mapping[str, type]
"""The classes of a function, by ``module.name``."""


def class_name(cls: type) -> str:
    """``module.name``."""
    return f"{cls.__module__}.{cls.__qualname__}"


# ---- which classes a function has ------------------------------------------------------------------------------


def classes_of(methods: Iterable[Any], body: Any, fresh: Any) -> Classes:
    """The classes whose objects may be in the accumulators of a function.

    Args:
        methods: the methods of the function; the classes that their code refers to count.
        body: the function.
        fresh: an accumulator that it has just made; the classes of what is in it count.
    """
    classes: dict[str, type] = {}
    for cls in (*_in(fresh, 0), *(c for m in (*methods, *_own_methods(body)) for c in _references(m))):
        for one in cls.__mro__:
            if _can_be_kept(one):
                classes.setdefault(class_name(one), one)
    return classes


def _own_methods(body: Any) -> Iterator[Any]:
    for cls in type(body).__mro__:
        if not _is_of_library(cls):
            yield from vars(cls).values()


def _references(method: Any) -> Iterator[type]:
    code = inspect.unwrap(getattr(method, "__func__", method))
    scope = getattr(code, "__globals__", None)
    if scope is None or str(scope.get("__name__", "")).partition(".")[0] == "stateplan":
        return
    cells = (cell.cell_contents for cell in getattr(code, "__closure__", None) or () if _is_filled(cell))
    yield from (value for value in (*list(scope.values()), *cells) if isinstance(value, type))


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _in(value: Any, depth: int) -> Iterator[type]:
    """The classes of a value and of what is in it."""
    if depth > 20 or type(value) in _SCALARS:
        return
    yield type(value)
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    inside: list[Any] = list(value) if isinstance(value, (list, tuple, set, frozenset, deque)) else []
    inside += list(getattr(value, "__dict__", {}).values())
    for one in inside:
        yield from _in(one, depth + 1)


def _is_of_library(cls: type) -> bool:
    """Whether it is of Python itself or of stateplan."""
    root = cls.__module__.partition(".")[0]
    return root in ("builtins", "stateplan") or (root in sys.stdlib_module_names and root != "__main__")


def _can_be_kept(cls: type) -> bool:
    """Whether its objects are their attributes, and nothing happens when one is made without its constructor."""
    if _is_of_library(cls):
        return False
    own = [c for c in cls.__mro__ if not _is_of_library(c)]
    if any("__del__" in vars(c) or "__reduce__" in vars(c) or "__reduce_ex__" in vars(c) for c in own):
        return False
    if issubclass(cls, enum.Enum):
        return True
    try:
        blank(cls, ())
    except Exception:  # whatever the class of somebody else does
        return False
    return True


def _container(cls: type) -> Any:
    """The class of Python that it is a container by; None for none."""
    return next((base for base in _CONTAINERS if issubclass(cls, base)), None)


def blank(cls: type, items: Iterable[Any]) -> Any:
    """An object without attributes; its constructor is not called. Raises TypeError for a class that is not written in
    Python."""
    base = _container(cls)
    return object.__new__(cls) if base is None else base.__new__(cls, items) if base is tuple else base.__new__(cls)


def _attributes(value: Any) -> dict[str, Any]:
    attributes = dict(getattr(value, "__dict__", {}))
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            name = f"_{cls.__name__.lstrip('_')}{slot}" if slot.startswith("__") and not slot.endswith("__") else slot
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                attributes[name] = getattr(value, name)
    return attributes


def restore_state(value: Any, state: Any) -> Any:
    """``value`` with what its class has said is its state; by default its attributes."""
    own = getattr(type(value), "__setstate__", None)
    if own is not None:
        own(value, state)
        return value
    if state is not None and not isinstance(state, dict):
        raise UnreadableError(f"the state of a {class_name(type(value))} is no dict")
    for name, attribute in (state or {}).items():
        if not isinstance(name, str) or name.startswith("__"):
            raise UnreadableError(f"the attribute {str(name)[:50]} of a {class_name(type(value))}")
        object.__setattr__(value, name, attribute)
    return value


# ---- writing ---------------------------------------------------------------------------------------------------


def encoded(value: Any, classes: Callable[[], Classes]) -> bytes:
    """An accumulator as bytes.

    Args:
        value: the accumulator.
        classes: returns the classes of the function.

    Raises:
        UnstorableError: there is something in it that has no form without code.
        RecursionError: it is nested too deeply.
    """
    try:
        return json.dumps(_Writer(classes, _SCALARS).json(value), separators=(",", ":")).encode()
    except ValueError:  # a number of more than 4300 digits
        plain = _SCALARS - {int}
        return json.dumps(_Writer(classes, plain).json(value), separators=(",", ":")).encode()


class _Writer:
    """Writes one accumulator. A list, dict, set or object that is in it twice is written once, and is one when it is
    read."""

    def __init__(self, classes: Callable[[], Classes], plain: frozenset[type]) -> None:
        self._classes = classes
        self._plain = plain
        self._places_by_id: dict[int, int] = {}
        self._alive: list[Any] = []

    def json(self, value: Any) -> Any:
        kind = type(value)
        if kind in self._plain:
            return value
        if kind is int:
            return value if -_LONGEST_INT < value < _LONGEST_INT else ["int", hex(value)]
        if kind in _ATOMS:
            return [kind.__name__, *map(self.json, _ATOMS[kind](value))]
        if kind in (tuple, frozenset):
            return [kind.__name__, *self._items(value)]
        if kind is Row:
            return ["row", list(value.as_dict()), value.get_row_kind().name, *self._items(tuple(value))]
        number = self._places_by_id.get(id(value))
        if number is not None:
            return ["same", number]
        self._places_by_id[id(value)] = len(self._places_by_id)
        self._alive.append(value)
        write = _KINDS.get(kind)
        return self._object(value, kind) if write is None else write(self, value)

    def _items(self, values: Iterable[Any]) -> list[Any]:
        items = list(values)
        return items if set(map(type, items)) <= self._plain else [self.json(item) for item in items]

    def _pairs(self, value: dict[Any, Any]) -> list[Any]:
        return [*self._items(value.keys()), *self._items(value.values())]

    def _list(self, value: Any) -> Any:
        return ["list", *self._items(value)]

    def _dict(self, value: dict[Any, Any]) -> Any:
        if set(map(type, value)) <= {str}:
            return dict(zip(value, self._items(value.values()), strict=True))
        return ["dict", *self._pairs(value)]

    def _set(self, value: set[Any]) -> Any:
        return ["set", *self._items(value)]

    def _bytearray(self, value: bytearray) -> Any:
        return ["bytearray", _text(bytes(value))]

    def _deque(self, value: deque[Any]) -> Any:
        return ["deque", value.maxlen, *self._items(value)]

    def _counter(self, value: Counter[Any]) -> Any:
        return ["Counter", *self._pairs(value)]

    def _ordered_dict(self, value: OrderedDict[Any, Any]) -> Any:
        return ["OrderedDict", *self._pairs(value)]

    def _default(self, value: defaultdict[Any, Any]) -> Any:
        factory = value.default_factory
        name = None if factory is None else getattr(factory, "__name__", "")
        if factory is not None and FACTORIES.get(str(name)) is not factory:
            raise UnstorableError(f"a defaultdict of {name or factory}: its values may be {', '.join(FACTORIES)}")
        return ["defaultdict", name, *self._pairs(value)]

    def _object(self, value: Any, kind: type) -> Any:
        root = kind.__module__.partition(".")[0]
        if root == "numpy":
            return _of_numpy(value)
        if root in _FRAMES:
            return ["frame", *_of_frame(value)]
        name = class_name(kind)
        if self._classes().get(name) is not kind:
            raise UnstorableError(f"a value of the class {name}")
        if isinstance(value, enum.Enum):
            return ["enum", name, value.name]
        own: Callable[[Any], Any] = getattr(kind, "__getstate__", _attributes)
        if own is getattr(object, "__getstate__", None):
            own = _attributes
        base = _container(kind)
        items: Any = None
        if base is dict:
            items = self._pairs(value)
        elif base is not None:
            items = self._items(base.__iter__(value))
        return ["object", name, items, self.json(own(value))]


_KINDS: dict[type, Callable[[_Writer, Any], Any]] = {
    list: _Writer._list,  # noqa: SLF001 - of this module
    dict: _Writer._dict,  # noqa: SLF001
    set: _Writer._set,  # noqa: SLF001
    bytearray: _Writer._bytearray,  # noqa: SLF001
    deque: _Writer._deque,  # noqa: SLF001
    Counter: _Writer._counter,  # noqa: SLF001
    OrderedDict: _Writer._ordered_dict,  # noqa: SLF001 - of this module
    defaultdict: _Writer._default,  # noqa: SLF001
}


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _zone(value: tzinfo | None) -> Any:
    if value is None or type(value) in (timezone, ZoneInfo):
        return value
    raise UnstorableError(f"a time zone of the class {class_name(type(value))}")


def _zone_key(value: ZoneInfo) -> list[Any]:
    if value.key is None:
        raise UnstorableError("a ZoneInfo without a name")
    return [value.key]


_ATOMS: dict[type, Callable[[Any], list[Any]]] = {
    bytes: lambda v: [_text(v)],
    complex: lambda v: [v.real, v.imag],
    Decimal: lambda v: [str(v)],
    Fraction: lambda v: [v.numerator, v.denominator],
    date: lambda v: [v.isoformat()],
    datetime: lambda v: [v.replace(tzinfo=None, fold=0).isoformat(), v.fold, _zone(v.tzinfo)],
    time: lambda v: [v.replace(tzinfo=None, fold=0).isoformat(), v.fold, _zone(v.tzinfo)],
    timedelta: lambda v: [v.days, v.seconds, v.microseconds],
    timezone: lambda v: [v.utcoffset(None)],
    ZoneInfo: _zone_key,
    uuid.UUID: lambda v: [str(v)],
    RowKind: lambda v: [v.name],
}
"""Values that nobody changes, by their class: what makes one again, see :data:`_CONSTRUCTORS`."""

_CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "bytes": base64.b64decode,
    "complex": complex,
    "Decimal": Decimal,
    "Fraction": Fraction,
    "date": date.fromisoformat,
    "datetime": lambda text, fold, zone: datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold),
    "time": lambda text, fold, zone: time.fromisoformat(text).replace(tzinfo=zone, fold=fold),
    "timedelta": timedelta,
    "timezone": timezone,
    "ZoneInfo": ZoneInfo,
    "UUID": uuid.UUID,
    "RowKind": RowKind.__getitem__,
    "int": lambda text: int(text, 16),
    "tuple": lambda *items: items,
    "frozenset": lambda *items: frozenset(items),
    "row": lambda names, kind, *items: Row.of(names, items).of_kind(RowKind[kind]),
}


def _of_numpy(value: Any) -> list[Any]:
    """An array or a number of NumPy: its type, its shape and its bytes."""
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind not in "biufcSUmM" or type(value) not in (np.ndarray, array.dtype.type):
        raise UnstorableError(f"a {type(value).__name__} of NumPy with the type {array.dtype}")
    shape = list(array.shape) if isinstance(value, np.ndarray) else None
    return ["numpy", array.dtype.str, shape, _text(np.ascontiguousarray(array).tobytes())]


def _of_frame(value: Any) -> list[Any]:
    """A column or table of pandas, Polars or PyArrow, through Arrow."""
    import pyarrow as pa

    kind, root = type(value).__name__, type(value).__module__.partition(".")[0]
    name: Any = None
    if root == "pyarrow":
        if isinstance(value, pa.Array):
            value, kind = pa.table({"": value}), "Array"
        elif isinstance(value, pa.ChunkedArray):
            value = pa.table({"": value})
        elif isinstance(value, pa.RecordBatch):
            value = pa.Table.from_batches([value])
    elif root == "pandas" and kind in ("Series", "DataFrame"):
        if kind == "Series":
            name, value = value.name, value.rename("value").to_frame()
        value = pa.Table.from_pandas(value)
    elif root == "polars" and kind in ("Series", "DataFrame"):
        if kind == "Series":
            name, value = value.name, value.to_frame()
        value = value.to_arrow(compat_level=None)
    if not isinstance(value, pa.Table) or not isinstance(name, (str, int, type(None))):
        raise UnstorableError(f"a {kind} of {root}")
    out = io.BytesIO()
    with pa.ipc.new_stream(out, value.schema) as stream:
        stream.write_table(value)
    return [root, kind, name, _text(out.getvalue())]


# ---- reading ---------------------------------------------------------------------------------------------------


def decoded(data: bytes, classes: Callable[[], Classes]) -> Any:
    """What :func:`encoded` was given.

    Raises:
        UnreadableError: the bytes are none of an accumulator of this function.
    """
    try:
        return _Reader(classes).value(json.loads(data))
    except UnreadableError:
        raise
    except Exception as cause:  # whatever damaged bytes lead to
        raise UnreadableError(f"{type(cause).__name__}: {cause}"[:200]) from cause


class _Reader:
    def __init__(self, classes: Callable[[], Classes]) -> None:
        self._classes = classes
        self._memo: list[Any] = []

    def value(self, encoding: Any) -> Any:
        kind = type(encoding)
        if kind in _SCALARS:
            return encoding
        if kind is dict:
            plain: dict[str, Any] = {}
            self._memo.append(plain)
            plain.update(zip(encoding, self._values(list(encoding.values())), strict=True))
            return plain
        tag, rest = encoding[0], encoding[1:]
        if tag in _CONSTRUCTORS:
            return _CONSTRUCTORS[tag](*self._arguments(tag, rest))
        if tag == "same":
            return self._memo[rest[0]]
        return _TAGS[tag](self, rest)

    def _arguments(self, tag: str, rest: list[Any]) -> list[Any]:
        return [*rest[:2], *self._values(rest[2:])] if tag == "row" else self._values(rest)

    def _values(self, encodings: list[Any]) -> list[Any]:
        return encodings if set(map(type, encodings)) <= _SCALARS else [self.value(one) for one in encodings]

    def _pairs(self, encodings: list[Any]) -> Iterator[tuple[Any, Any]]:
        values = self._values(encodings)
        half = len(values) // 2
        return zip(values[:half], values[half:], strict=True)

    def _list(self, rest: list[Any]) -> Any:
        items: list[Any] = []
        self._memo.append(items)
        items.extend(self._values(rest))
        return items

    def _dict(self, rest: list[Any]) -> Any:
        return self._filled_mapping({}, rest)

    def _filled_mapping(self, mapping: Any, rest: list[Any]) -> Any:
        self._memo.append(mapping)
        for key, item in self._pairs(rest):
            dict.__setitem__(mapping, key, item)
        return mapping

    def _set(self, rest: list[Any]) -> Any:
        items: set[Any] = set()
        self._memo.append(items)
        items.update(self._values(rest))
        return items

    def _bytearray(self, rest: list[Any]) -> Any:
        self._memo.append(data := bytearray(base64.b64decode(rest[0])))
        return data

    def _deque(self, rest: list[Any]) -> Any:
        items: deque[Any] = deque(maxlen=rest[0])
        self._memo.append(items)
        items.extend(self._values(rest[1:]))
        return items

    def _counter(self, rest: list[Any]) -> Any:
        return self._filled_mapping(Counter(), rest)

    def _ordered_dict(self, rest: list[Any]) -> Any:
        mapping: OrderedDict[Any, Any] = OrderedDict()
        self._memo.append(mapping)
        mapping.update(self._pairs(rest))
        return mapping

    def _default(self, rest: list[Any]) -> Any:
        return self._filled_mapping(defaultdict(None if rest[0] is None else FACTORIES[rest[0]]), rest[1:])

    def _class(self, name: Any) -> type:
        cls = self._classes().get(name)
        if cls is None:
            raise UnreadableError(f"it names the class {str(name)[:100]}, which the function's code does not")
        return cls

    def _enum(self, rest: list[Any]) -> Any:
        cls: Any = self._class(rest[0])
        self._memo.append(cls[rest[1]])
        return cls[rest[1]]

    def _object(self, rest: list[Any]) -> Any:
        cls, items = self._class(rest[0]), rest[1]
        base = _container(cls)
        if base is tuple:  # what it has inside cannot refer to it
            place = len(self._memo)
            self._memo.append(None)
            instance = self._memo[place] = blank(cls, self._values(items))
        else:
            self._memo.append(instance := blank(cls, ()))
            if base is dict:
                for key, item in self._pairs(items):
                    dict.__setitem__(instance, key, item)
            elif base is list:
                list.extend(instance, self._values(items))
            elif base is set:
                set.update(instance, self._values(items))
        return restore_state(instance, self.value(rest[2]))

    def _numpy(self, rest: list[Any]) -> Any:
        import numpy as np

        dtype = np.dtype(rest[0])
        if dtype.kind not in "biufcSUmM":
            raise UnreadableError(f"the type {dtype} of NumPy")
        flat = np.frombuffer(base64.b64decode(rest[2]), dtype)
        self._memo.append(array := flat[0] if rest[1] is None else flat.reshape(rest[1]).copy())
        return array

    def _frame(self, rest: list[Any]) -> Any:
        import pyarrow as pa

        root, kind, name, data = rest
        table = pa.ipc.open_stream(base64.b64decode(data)).read_all()
        frame: Any = table
        if root == "pyarrow" and kind in ("Array", "ChunkedArray"):
            frame = table.column(0) if kind == "ChunkedArray" else table.column(0).combine_chunks()
        elif root == "pyarrow" and kind == "RecordBatch":
            frame = table.combine_chunks().to_batches()[0]
        elif root == "pandas":
            frame = table.to_pandas()
            frame = frame["value"].rename(name) if kind == "Series" else frame
        elif root == "polars":
            import polars as pl

            frame = pl.DataFrame(pl.from_arrow(table))
            frame = frame.to_series() if kind == "Series" else frame
        self._memo.append(frame)
        return frame


_TAGS: dict[str, Callable[[_Reader, list[Any]], Any]] = {
    "list": _Reader._list,  # noqa: SLF001 - of this module
    "dict": _Reader._dict,  # noqa: SLF001
    "set": _Reader._set,  # noqa: SLF001
    "bytearray": _Reader._bytearray,  # noqa: SLF001
    "deque": _Reader._deque,  # noqa: SLF001
    "Counter": _Reader._counter,  # noqa: SLF001
    "OrderedDict": _Reader._ordered_dict,  # noqa: SLF001 - of this module
    "defaultdict": _Reader._default,  # noqa: SLF001
    "enum": _Reader._enum,  # noqa: SLF001
    "object": _Reader._object,  # noqa: SLF001
    "numpy": _Reader._numpy,  # noqa: SLF001
    "frame": _Reader._frame,  # noqa: SLF001
}
