"""Accumulators as bytes: everything that is written is read again, and bytes of somebody else run nothing."""

from __future__ import annotations

import collections
import decimal
import enum
import os
import pickle
import subprocess
import sys
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta, timezone
from fractions import Fraction
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.common.changelog import RowKind
from stateplan.common.errors import CheckpointError, RunError
from stateplan.common.types import BIGINT
from stateplan.common.values.row import Row
from stateplan.planner.catalog.udf import AggregateFunction, udaf
from stateplan.runtime.kernels.common.accumulator_bytes import (
    UnreadableError,
    UnstorableError,
    classes_of,
    decoded,
    encoded,
)
from stateplan.runtime.kernels.common.accumulators import Changes
from stateplan.runtime.kernels.common.old_accumulators import unpickled
from stateplan.runtime.kernels.common.user_aggregates import UserFold


class Colour(enum.Enum):
    RED = 1


class Point(NamedTuple):
    x: int
    y: Any


@dataclass
class Mean:
    total: float = 0.0
    count: int = 0
    seen: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fixed:
    a: int


class Bag(list[Any]):
    label = ""


class Table(dict[str, Any]):
    pass


class Sketch:
    """Says itself what its state is."""

    def __init__(self, bits: bytes) -> None:
        self.bits = bytearray(bits)

    def __getstate__(self) -> bytes:
        return bytes(self.bits)

    def __setstate__(self, state: bytes) -> None:
        self.bits = bytearray(state)


class Slots:
    __slots__ = ("__hidden", "a")

    def __init__(self) -> None:
        self.a, self.__hidden = 1, 2

    @property
    def hidden(self) -> int:
        return self.__hidden


class Collector(AggregateFunction):
    """Refers to the classes above, as functions do."""

    def create_accumulator(self) -> Any:
        return None

    def accumulate(self, accumulator: Any, *args: Any) -> Any:
        return [Colour, Point, Mean, Fixed, Bag, Table, Sketch, Slots]


CLASSES = classes_of((), Collector(), None)


def known() -> Any:
    return CLASSES


def there_and_back(value: Any) -> Any:
    return decoded(encoded(value, known), known)


def old(value: Any) -> Any:
    return unpickled(pickle.dumps(value, protocol=5), known)


TIMES: list[Any] = [
    date(1, 1, 1),
    datetime(2024, 2, 29, 1, 2, 3, 4),
    datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-3, microseconds=5))),
    time(23, 59, 59, 999_999),
    timedelta(-1, 5, 7),
]
VALUES: list[Any] = [
    None,
    True,
    -0.0,
    float("inf"),
    1 << 70,
    -(10**5000),
    "text \ud800 \x00 é",
    b"\x80\x00",
    bytearray(b"abc"),
    3 - 4j,
    decimal.Decimal("1.10"),
    decimal.Decimal("NaN"),
    Fraction(1, 3),
    uuid.UUID(int=7),
    *TIMES,
    [],
    [[1, [2]], (3, (4,)), {5}, frozenset({6})],
    ["list", 1],
    {},
    {"a": 1, "b": [1]},
    {1: "a", (1, 2): {"x": None}, None: 0},
    collections.deque([1, 2], maxlen=2),
    collections.Counter("abca"),
    collections.OrderedDict([("b", 1), ("a", [2])]),
    collections.defaultdict(list, {"k": [1]}),
    collections.defaultdict(None, {1: 2}),
    Row(1, "a"),
    Row(id=1, name=[1]),
    RowKind.DELETE,
    Colour.RED,
    Point(1, [2]),
    Mean(1.5, 2, [3]),
    Fixed(7),
    {"list": Bag([1, Bag([2])]), "table": Table(a=Mean())},
]


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{type(v).__name__}-{len(repr(v)) if v != -(10**5000) else 0}"
                         if not isinstance(v, int) else "int")  # fmt: skip
@pytest.mark.parametrize("way", [there_and_back, old])
def test_values_come_back_as_they_were(value: Any, way: Callable[[Any], Any]) -> None:
    found = way(value)
    assert type(found) is type(value)
    assert pickle.dumps(found, 5) == pickle.dumps(value, 5) or found == value
    if isinstance(value, (datetime, time)):
        assert (found.tzinfo, found.fold) == (value.tzinfo, value.fold)
    if isinstance(value, Row):
        assert found.as_dict() == value.as_dict()
    if isinstance(value, collections.defaultdict):
        assert found.default_factory is value.default_factory
    if isinstance(value, collections.deque):
        assert found.maxlen == value.maxlen


@pytest.mark.parametrize("way", [there_and_back, old])
def test_objects_are_made_of_their_state(way: Callable[[Any], Any]) -> None:
    assert way(Sketch(b"\1\2")).bits == bytearray(b"\1\2")
    found = way(Slots())
    assert (found.a, found.hidden) == (1, 2)
    bag = Bag([1, 2])
    bag.label = "mine"
    assert (list(way(bag)), way(bag).label) == ([1, 2], "mine")


@pytest.mark.parametrize("way", [there_and_back, old])
def test_what_is_in_it_twice_is_one_afterwards(way: Callable[[Any], Any]) -> None:
    shared: list[Any] = [1]
    mean = Mean(seen=[1])
    found = way({"a": shared, "b": [shared], "c": (mean, mean), "d": mean.seen})
    found["a"].append(2)
    assert found["b"] == [[1, 2]]
    assert found["c"][0] is found["c"][1]
    assert found["d"] is found["c"][0].seen
    itself: list[Any] = []
    itself.append(itself)
    again = way(itself)
    assert again[0] is again


@pytest.mark.parametrize("way", [there_and_back, old])
def test_arrays_of_numpy(way: Callable[[Any], Any]) -> None:
    arrays = [
        *(np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6).reshape(2, 3)), np.array([], "i4")),
        *(np.array(["a", "é"]), np.array(["2024"], "M8[D]"), np.array([5], ">i4"), np.array([5], "m8[25s]")),
    ]
    for array in arrays:
        found = way([array, array])
        assert found[0].dtype == array.dtype
        assert np.array_equal(found[0], array)
        found[0][:0] = 0  # it can be changed
        assert found[0] is found[1]
    number = way(np.float32(1.5))
    assert (type(number), number) == (np.float32, 1.5)


def test_columns_and_tables() -> None:
    series = pd.Series([1, 2], index=["a", "b"], name="s")
    pd.testing.assert_series_equal(there_and_back(series), series)
    frame = pd.DataFrame({"x": [1.5, None], "y": ["a", None]})
    pd.testing.assert_frame_equal(there_and_back(frame), frame)
    for value in (pa.array([1, None]), pa.chunked_array([[1], [2]]), pa.table({"a": [1]}),
                  pa.record_batch({"a": [1]}), pl.Series("n", [1, 2]), pl.DataFrame({"a": ["x"]})):  # fmt: skip
        found = there_and_back(value)
        assert type(found) is type(value)
        assert found.equals(value)


nested = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner)
    | st.dictionaries(st.integers(), inner) | st.builds(collections.deque, st.lists(inner)),
    max_leaves=20,
)  # fmt: skip


@given(nested)
def test_any_plain_value(value: Any) -> None:
    for way in (there_and_back, old):
        found = way(value)
        assert found == value
        assert repr(found) == repr(value)


@pytest.mark.parametrize(
    "value",
    [lambda: 1, object(), sys, open, Path("x"), subprocess.Popen, np.array([object()]),
     collections.defaultdict(lambda: 1)],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_what_has_no_form_without_code_is_refused(value: Any) -> None:
    with pytest.raises(UnstorableError):
        encoded([value], known)


# ---- bytes of somebody else ------------------------------------------------------------------------------------


class Attack:
    """Pickles as a call."""

    def __init__(self, *call: Any) -> None:
        self.call = call

    def __reduce__(self) -> Any:
        return self.call[0], self.call[1:]


class Summed(AggregateFunction):
    def create_accumulator(self) -> Any:
        return [0]

    def accumulate(self, accumulator: Any, value: Any) -> None:
        accumulator[0] += value

    def get_value(self, accumulator: Any) -> int:
        return int(accumulator[0])


@pytest.fixture
def canary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, str]:
    """A module that leaves a file when it is imported; the file, and its name."""
    name = f"canary_{uuid.uuid4().hex}"
    (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\nclass Bird: pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path / "ran", name


def payloads(ran: Path, module: str) -> list[bytes]:
    """Bytes that would leave the file behind, were they unpickled, or trusted."""
    fake = ModuleType(module)
    bird = type("Bird", (), {"__module__": module})
    fake.Bird = bird  # type: ignore[attr-defined]
    sys.modules[module] = fake
    try:
        named = [pickle.dumps(bird, p) for p in range(6)] + [pickle.dumps(bird(), p) for p in range(6)]
    finally:
        del sys.modules[module]
    touch = f"touch {ran}"
    calls: list[tuple[Any, ...]] = [
        (os.system, touch),
        (eval, f"open({str(ran)!r}, 'w')"),
        (exec, f"open({str(ran)!r}, 'w')"),
        (open, str(ran), "w"),
        (__import__, module),
        (subprocess.Popen, ["touch", str(ran)]),
    ]
    called = [pickle.dumps(Attack(*call), protocol) for call in calls for protocol in range(2, 6)]
    inside = [pickle.dumps(wrap(Attack(os.system, touch)), 5)
              for wrap in (lambda a: [a], lambda a: {1: a}, lambda a: Mean(seen=a), lambda a: Point(a, 1),
                           lambda a: collections.deque([a]), lambda a: collections.Counter({1: a}),
                           lambda a: Attack(Mean, a))]  # fmt: skip
    json_texts = [
        f'["object","{module}.Bird",null,null]',
        '["object","os.system",null,null]',
        '["object","subprocess.Popen",null,{"args":1}]',
        '["enum","os.system","x"]',
        '["defaultdict","eval"]',
        f'["numpy","O",[1],"{"A" * 12}"]',
        '["same",0]',
        '["nothing"]',
        "[]",
        "[[",
        '["frame","pandas","Series","x","AAAA"]',
        f'["object","{__name__}.Mean",null,{{"__class__":1}}]',
        f'["object","{__name__}.Attack",null,null]',
    ]
    return [
        *[n for n in named if n.startswith(b"\x80")],
        *called,
        *inside,
        *(t.encode() for t in json_texts),
        b"\x80",
        b"\x80\x05.",
        b"",
    ]


def test_state_that_an_earlier_release_pickled_goes_on() -> None:
    function = udaf(Summed(), input_types=["BIGINT"], result_type="BIGINT")
    fold = UserFold(0, function, [BIGINT], BIGINT, retract=False)
    kept = [pickle.dumps([40], 5), None]
    state = pl.DataFrame({"accumulator0": pl.Series(kept, dtype=pl.Binary())})
    (after,) = fold.update(state, Changes(2, np.array([0, 1]), pl.Series("v", [2, 3]), None))
    assert after.to_list() == [b'["list",42]', b'["list",3]']
    assert fold.value(after.to_frame("accumulator0")).to_list() == [42, 3]


def test_nothing_that_bytes_name_is_imported_or_called(canary: tuple[Path, str]) -> None:
    ran, module = canary
    function = udaf(Summed(), input_types=["BIGINT"], result_type="BIGINT")
    fold = UserFold(0, function, [BIGINT], BIGINT, retract=False)
    tried = payloads(ran, module)
    for data in tried:
        state = pl.DataFrame({"accumulator0": pl.Series([data], dtype=pl.Binary())})
        with pytest.raises(CheckpointError) as refused:
            pytest.fail(f"{data!r} gave {fold.load(state)}")
        assert refused.value.code == "CKPT009", data
        assert not ran.exists(), data
    assert module not in sys.modules
    assert len(tried) > 50
    with pytest.raises(UnreadableError):
        unpickled(pickle.dumps(Attack(Mean, 1.0), 5), known)  # not even the constructor of a known class


def test_the_payloads_would_run(canary: tuple[Path, str]) -> None:
    ran, module = canary
    data = pickle.dumps(Attack(__import__, module), 5)
    pickle.loads(data)
    assert ran.exists()


def test_an_accumulator_that_cannot_be_kept_names_its_class() -> None:
    class Broken(Summed):
        def accumulate(self, accumulator: Any, value: Any) -> Any:
            return Path("x")

    fold = UserFold(0, udaf(Broken(), ["BIGINT"], "BIGINT", name="f"), [BIGINT], BIGINT, retract=False)
    changes = Changes(1, np.array([0]), pl.Series("v", [1]), None)
    with pytest.raises(RunError, match="pathlib") as refused:
        fold.update(pl.DataFrame({"accumulator0": pl.Series([None], dtype=pl.Binary())}), changes)
    assert refused.value.code == "RUN076"
