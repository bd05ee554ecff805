"""Lazy dataclasses behave as those of the standard library do; every class of the project is a right one."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import re
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar, field, fields
from functools import cached_property
from itertools import product
from typing import Any, ClassVar, Generic, TypeVar

import pytest

import stateplan
from stateplan.common import lazy_dataclass
from tests.conftest import ROOT

T = TypeVar("T")
Decorator = Callable[..., Any]


def family(dataclass: Decorator, frozen: bool) -> dict[str, Any]:
    """Classes of many kinds, and functions that make instances of each."""

    @dataclass(frozen=frozen)
    class Point:
        """A point."""

        x: int
        y: int = 0
        names: list[str] = field(default_factory=list, compare=False)
        count: ClassVar[int] = 7

        @cached_property
        def total(self) -> int:
            return self.x + self.y

    @dataclass(frozen=frozen)
    class Named(Point):
        y: int = 5
        name: str = field(default="n", repr=False)

    class Plain(Named):
        pass

    @dataclass(frozen=frozen, kw_only=True)
    class Late(Plain):
        z: float

    @dataclass(frozen=frozen)
    class Own:
        a: int

        def __repr__(self) -> str:
            return "own"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __hash__(self) -> int:
            return 3

    @dataclass(frozen=frozen, eq=False)
    class Same:
        a: int

    @dataclass(frozen=frozen)
    class Checked(Generic[T]):
        a: T
        _: KW_ONLY
        add: InitVar[int] = 1
        b: int = field(init=False)

        def __post_init__(self, add: int) -> None:
            object.__setattr__(self, "b", add + 1)

    class Base(ABC):
        @property
        @abstractmethod
        def size(self) -> int: ...

    @dataclass(frozen=frozen)
    class Sized(Base):
        at: int = 1

        @property
        def size(self) -> int:
            return self.at

    @dataclass(frozen=frozen, repr=False, order=True)
    class Ordered:
        a: int

    return {name: kind for name, kind in locals().items() if inspect.isclass(kind)}


CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("Point", (1,), {}),
    ("Point", (1, 2, ["a"]), {}),
    ("Point", (), {}),
    ("Point", (1,), {"w": 2}),
    ("Named", (1,), {"name": "m"}),
    ("Plain", (1, 2), {}),
    ("Late", (1,), {"z": 2.5}),
    ("Late", (1, 2, [], "n", 2.5), {}),
    ("Own", (1,), {}),
    ("Same", (1,), {}),
    ("Checked", (1,), {"add": 4}),
    ("Checked", (1, 4), {}),
    ("Base", (), {}),
    ("Sized", (3,), {}),
    ("Ordered", (3,), {}),
]


def told(what: Callable[[], Any]) -> str:
    """What a call gives or raises, without what names the place of a class or an object."""
    try:
        text = repr(what())
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
    return re.sub(r"0x[0-9a-f]+|\w+\.<locals>\.", "", text)


LOOKS: dict[str, Callable[[Any], Any]] = {
    "repr": repr,
    "equal": lambda one: (one == copy.copy(one), one == 5, one != copy.deepcopy(one)),
    "hash": lambda one: hash(one) == hash(copy.copy(one)),
    "hash of the kind": lambda one: type(one).__hash__ is None,
    "fields": lambda one: [(f.name, f.type, f.default, f.kw_only) for f in fields(one)],
    "dict": dataclasses.asdict,
    "replace": lambda one: dataclasses.replace(one, **{fields(one)[0].name: 9}),
    "assign": lambda one: setattr(one, fields(one)[0].name, 1),
    "assign another": lambda one: setattr(one, "other", 1),
    "delete": lambda one: delattr(one, fields(one)[0].name),
    "delete another": lambda one: delattr(one, "other"),
    "match": lambda one: type(one).__match_args__,
    "signature": lambda one: str(inspect.signature(type(one))),
    "class attributes": lambda one: {n: getattr(type(one), n, None) for n in ("x", "y", "names", "name", "count", "b")},
    "cached": lambda one: one.total,
    "parameters": lambda one: type(one).__dataclass_params__,
    "doc": lambda one: type(one).__doc__ if "A point" in (type(one).__doc__ or "") else None,
    "qualname": lambda one: type(one).__init__.__qualname__,
    "order": lambda one: one < one,
}


@pytest.mark.parametrize("frozen", [True, False], ids=["frozen", "not frozen"])
@pytest.mark.parametrize("call", CALLS, ids=str)
def test_instances_behave_as_those_of_the_standard_library(
    call: tuple[str, tuple[Any, ...], dict[str, Any]], frozen: bool
) -> None:
    name, values, named = call
    for text, look in LOOKS.items():

        def of(decorator: Decorator, look: Callable[[Any], Any] = look) -> str:
            return told(lambda: look(family(decorator, frozen)[name](*values, **named)))

        assert of(lazy_dataclass.dataclass) == of(dataclasses.dataclass), text


@pytest.mark.parametrize(("first", "frozen"), list(product(LOOKS, [True, False])))
def test_whatever_is_first_makes_the_methods(first: str, frozen: bool) -> None:
    """An instance that was unpickled has not been through ``__init__``."""

    def look(decorator: Decorator) -> list[str]:
        kind = family(decorator, frozen)["Named"]
        one = kind.__new__(kind)
        vars(one).update(x=1, y=2, names=["a"], name="m")
        return [told(lambda: LOOKS[first](one)), told(lambda: kind(1))]

    assert look(lazy_dataclass.dataclass) == look(dataclasses.dataclass)


def test_nothing_is_made_before_it_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(
        lazy_dataclass, "_twin", lambda cls, *more, _twin=lazy_dataclass._twin: made.append(cls) or _twin(cls, *more)
    )
    kinds = family(lazy_dataclass.dataclass, True)
    assert made == []
    assert kinds["Named"](1) == kinds["Named"](1)
    assert made == [kinds["Named"], kinds["Point"]]


@pytest.mark.parametrize(
    "body",
    [
        {"__annotations__": {"a": "int", "b": "int"}, "a": 1},
        {"__annotations__": {"a": "list"}, "a": []},
        {"a": field(default=1)},
    ],
    ids=["order", "mutable default", "no annotation"],
)
def test_a_mistake_in_a_class_shows_at_its_first_use(body: dict[str, Any]) -> None:
    kind = lazy_dataclass.dataclass(type("Kind", (), dict(body)))
    messages = {told(kind) for _ in range(2)}  # the second is not another
    assert messages == {told(lambda: dataclasses.dataclass(type("Kind", (), dict(body))))}


def test_a_frozen_class_has_no_assignment_of_its_own() -> None:
    body = {"__setattr__": lambda *_: None}
    with pytest.raises(TypeError, match="Cannot overwrite attribute __setattr__ in class Kind"):
        lazy_dataclass.dataclass(type("Kind", (), body), frozen=True)


def test_a_frozen_class_cannot_extend_one_that_is_not() -> None:
    kinds = family(lazy_dataclass.dataclass, False)
    kind = lazy_dataclass.dataclass(type("Kind", (kinds["Point"],), {}), frozen=True)
    with pytest.raises(TypeError, match="cannot inherit frozen dataclass from a non-frozen one"):
        kind(1)


def test_threads_use_a_class_for_the_first_time_together() -> None:
    for _ in range(50):
        kinds = family(lazy_dataclass.dataclass, True)
        start, results = threading.Barrier(8), []

        def use(kind: Any = kinds["Late"], start: threading.Barrier = start, results: list[Any] = results) -> None:
            start.wait()
            results.append(kind(1, z=2.0))

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [kinds["Late"](1, z=2.0)] * 8


def _modules() -> list[str]:
    packages = [name for _, name, is_package in pkgutil.iter_modules(stateplan.__path__) if is_package]
    names = [f"stateplan.{package}" for package in packages]
    for package in packages:
        path = importlib.import_module(f"stateplan.{package}").__path__
        names += [module.name for module in pkgutil.walk_packages(path, f"stateplan.{package}.")]
    return names


def test_every_class_of_the_project_is_a_right_one() -> None:
    count = 0
    for name in _modules():
        module = importlib.import_module(name)
        for kind in vars(module).values():
            if inspect.isclass(kind) and kind.__module__ == name and "__dataclass_fields__" in vars(kind):
                assert fields(kind) is not None
                assert kind.__hash__ is None or kind.__eq__ is not None
                count += 1
    assert count > 700


def test_instances_of_the_project_are_pickled() -> None:
    from stateplan.common.ttl import TtlConfig

    one = TtlConfig(5)
    assert pickle.loads(pickle.dumps(one)) == one


def test_the_project_uses_no_other_dataclass() -> None:
    rooms = [path.parent for path in ROOT.glob("*/py.typed")]
    assert rooms
    direct = re.compile(r"^ *(from dataclasses import .*\bdataclass\b|@dataclasses\.dataclass)", re.M)
    others = [
        str(path.relative_to(ROOT))
        for room in rooms
        for path in room.rglob("*.py")
        if direct.search(path.read_text(encoding="utf-8")) and path.name != "lazy_dataclass.py"
    ]
    assert others == []
