"""Dataclasses whose methods are made at their first use.

:func:`dataclasses.dataclass` compiles up to six methods for each class when its module is loaded. A command loads 100
to 550 such classes and makes instances of a few: this took a fifth to a third of its time. The decorator here leaves
stand-ins in the class. The first one that is called has the standard library make all methods of that class. So a
mistake in a class shows at its first use. A test uses every class.

David Beazley's ``cluegen`` makes methods in the same way. See ``docs/decisions/0051-lazy-dataclasses.md``.
"""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from threading import RLock
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As :func:`dataclasses.dataclass`. With options other than ``frozen``, ``eq``, ``repr`` and ``kw_only``, the
        methods are made at once."""
        decorate = _later if options.keys() <= _OPTIONS else dataclasses.dataclass
        return decorate(cls, **options) if cls is not None else lambda late: decorate(late, **options)


_C = TypeVar("_C", bound=type)

_OPTIONS = frozenset({"frozen", "eq", "repr", "kw_only"})
_FIELDS, _PARAMETERS = "__dataclass_fields__", "__dataclass_params__"
_VALUES = (_FIELDS, _PARAMETERS, "__match_args__")
_SIGNATURE = "__signature__"
"""No dataclass has it. :mod:`inspect` asks for it before it looks at ``__init__``."""

_METHODS = ("__init__", "__repr__", "__eq__", "__hash__")
_ATTRIBUTES = (*_VALUES, *_METHODS, "__replace__")
"""What the standard library adds to a class, but for the two methods that refuse assignments."""

_lock = RLock()
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


class _Value:
    """Stands in for an attribute of a class."""

    def __init__(self, name: str, owner: type, make: Callable[[], None]) -> None:
        self._name, self._owner, self._make = name, owner, make

    def __get__(self, instance: object, owner: type) -> Any:
        self._make()
        if self._name in _ATTRIBUTES:
            return vars(self._owner)[self._name]
        raise AttributeError(self._name)


def _method(name: str, owner: type, make: Callable[[], None]) -> Callable[..., Any]:
    """Stands in for a method of a class."""

    def stand_in(self: object, *values: Any, **fields: Any) -> Any:
        make()
        return vars(owner)[name](self, *values, **fields)

    stand_in.__name__, stand_in.__qualname__ = name, f"{owner.__qualname__}.{name}"
    return stand_in


def _later(cls: _C, *, frozen: bool = False, eq: bool = True, repr: bool = True, kw_only: bool = False) -> _C:  # noqa: A002 - named as there
    annotations = inspect.get_annotations(cls)
    own = {name: value for name, value in vars(cls).items() if name in annotations or isinstance(value, Field)}
    for name, value in own.items():
        if isinstance(value, Field):
            if value.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, value.default)
    body = {name: vars(cls)[name] for name in (*_METHODS, "__match_args__") if name in vars(cls)}
    body |= {"__annotations__": annotations, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    body |= {"__doc__": cls.__doc__ or cls.__name__, **own}
    is_made = False

    def make() -> None:
        nonlocal is_made
        with _lock:
            if not is_made:
                twin = _twin(cls, body, {"frozen": frozen, "eq": eq, "repr": repr, "kw_only": kw_only})
                for name in _ATTRIBUTES:
                    if name in vars(twin):
                        setattr(cls, name, vars(twin)[name])
                is_made = True

    for name in (*_VALUES, _SIGNATURE):
        if name not in vars(cls):
            setattr(cls, name, _Value(name, cls, make))
    methods = {"__init__": True, "__repr__": repr, "__eq__": eq, "__hash__": eq and frozen}
    has_hash = vars(cls).get("__hash__") is not None
    if eq and not frozen and not has_hash:
        setattr(cls, "__hash__", None)  # noqa: B010 - as a method, it cannot be assigned
    for name, is_wanted in methods.items():
        if is_wanted and (not has_hash if name == "__hash__" else name not in vars(cls)):
            setattr(cls, name, _method(name, cls, make))
    if frozen:
        _refuse_assignments(cls)
    return cls


def _twin(cls: type, body: dict[str, Any], options: dict[str, bool]) -> type:
    """A class with the same fields, for which the standard library has made all methods. The class itself is not given
    to it: another thread may be using the stand-ins."""
    bases = [base for base in cls.__mro__[:0:-1] if hasattr(base, _FIELDS)]
    parents: tuple[type, ...] = ()
    if bases:
        fields = {name: field for base in bases for name, field in getattr(base, _FIELDS).items()}
        parents = (type("Parent", (), {_FIELDS: fields, _PARAMETERS: getattr(bases[-1], _PARAMETERS)}),)
    if hasattr(cls, "__post_init__"):
        body = {**body, "__post_init__": cls.__post_init__}
    return dataclasses.dataclass(**options)(type(cls.__name__, parents, body))


def _refuse_assignments(cls: type[Any]) -> None:
    """Gives a class the two methods of a frozen dataclass. Raises TypeError: it has one of them."""

    def refuse(self: object, name: str, verb: str) -> None:
        if type(self) is cls or name in getattr(cls, _FIELDS):
            raise FrozenInstanceError(f"cannot {verb} field {name!r}")

    def set_attribute(self: object, name: str, value: object) -> None:
        refuse(self, name, "assign to")
        super(cls, self).__setattr__(name, value)

    def delete_attribute(self: object, name: str) -> None:
        refuse(self, name, "delete")
        super(cls, self).__delattr__(name)

    for name, method in (("__setattr__", set_attribute), ("__delattr__", delete_attribute)):
        if name in vars(cls):
            raise TypeError(f"Cannot overwrite attribute {name} in class {cls.__name__}")
        setattr(cls, name, method)
