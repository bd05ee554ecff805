"""Steps of JSON paths, and their evaluation.

Source: json-path's ``PathToken`` classes and path functions, and ``JsonPath.read``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from decimal import Decimal
from typing import Any

from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.values.floats import double_text
from stateplan.functions.render.jsonpath.cursor import (
    InvalidPathError,
    JsonPathError,
    PathNotFoundError,
)
from stateplan.functions.render.jsonpath.filters import Condition


@dataclass
class _Evaluation:
    """One evaluation of a path.

    Attributes:
        root: the whole document.
        lax: whether steps that lead nowhere are passed over.
        requires_names: whether a name that is missing is an error, also at the end of the path.
        values: the values that the path leads to.
    """

    root: Any
    lax: bool = False
    requires_names: bool = False
    values: list[Any] = field(default_factory=list)


@dataclass
class Step:
    """A step of a path. ``certain`` says whether all steps before it lead to one value each."""

    following: Step | None = field(default=None, init=False)
    certain: bool = field(default=True, init=False)

    @property
    def definite(self) -> bool:
        """Whether the step leads to one value."""
        return False

    @property
    def is_last(self) -> bool:
        return self.following is None

    def take(self, value: Any, run: _Evaluation) -> None:
        """Goes on from ``value``."""
        raise NotImplementedError

    def matches(self, value: Any, run: _Evaluation) -> bool:
        """Whether ``..`` tries this step from ``value``."""
        return False

    def pass_on(self, value: Any, run: _Evaluation) -> None:
        if self.following is None:
            run.values.append(value)
        else:
            self.following.take(value, run)

    def pass_item(self, items: list[Any], index: int, run: _Evaluation) -> None:
        """The item at ``index``, from the end where negative; nothing beyond the ends."""
        try:
            if -len(items) <= index:
                self.pass_on(items[index], run)
        except IndexError:
            pass


@dataclass
class Root(Step):
    @property
    def definite(self) -> bool:
        return True

    def take(self, value: Any, run: _Evaluation) -> None:
        self.pass_on(value, run)


@dataclass
class Names(Step):
    names: tuple[str, ...]

    @property
    def definite(self) -> bool:
        return len(self.names) == 1 or self.is_last

    def take(self, value: Any, run: _Evaluation) -> None:
        if not isinstance(value, dict):
            if self.certain and not run.lax:
                raise PathNotFoundError(f"no object with {self.names}")
        elif len(self.names) > 1 and self.is_last:
            missing_names = [n for n in self.names if n not in value]
            if missing_names and run.requires_names:
                raise PathNotFoundError(f"no {missing_names}")
            run.values.append({n: value[n] for n in self.names if n in value})
        else:
            for name in self.names:
                self._one(value, name, run)

    def _one(self, value: dict[str, Any], name: str, run: _Evaluation) -> None:
        if name in value:
            self.pass_on(value[name], run)
        elif self.is_last:
            if run.requires_names and not run.lax:
                raise PathNotFoundError(f"no {name}")
        elif not run.lax and (run.requires_names or (self.certain and self.definite)):
            raise PathNotFoundError(f"no {name}")

    def matches(self, value: Any, run: _Evaluation) -> bool:
        return isinstance(value, dict) and (
            run.requires_names or not self.definite or all(n in value for n in self.names)
        )


@dataclass
class _Array(Step):
    def take(self, value: Any, run: _Evaluation) -> None:
        if isinstance(value, list):
            for index in self.indexes(len(value)):
                self.pass_item(value, index, run)
        elif self.certain and not run.lax:
            raise PathNotFoundError("no array")

    def indexes(self, length: int) -> Sequence[int]:
        raise NotImplementedError

    def matches(self, value: Any, run: _Evaluation) -> bool:
        return isinstance(value, list)


@dataclass
class Indexes(_Array):
    positions: tuple[int, ...]

    @property
    def definite(self) -> bool:
        return len(self.positions) == 1

    def indexes(self, length: int) -> Sequence[int]:
        return self.positions


@dataclass
class Slice(_Array):
    start: int | None
    end: int | None

    def indexes(self, length: int) -> Sequence[int]:
        start, end = self.start, self.end
        if start is not None and end is not None:
            return range(start, min(end, length)) if length else ()
        if start is not None:
            return range(max(0, start + length if start < 0 else start), length)
        end = length if end is None else end
        return range(min(end + length if end < 0 else end, length))


@dataclass
class All(Step):
    def take(self, value: Any, run: _Evaluation) -> None:
        parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        for part in parts:
            try:
                self.pass_on(part, run)
            except IndexError:
                if isinstance(value, dict):
                    raise
            except PathNotFoundError:
                if run.requires_names:
                    raise

    def matches(self, value: Any, run: _Evaluation) -> bool:
        return True


@dataclass
class Filter(Step):
    condition: Condition

    def take(self, value: Any, run: _Evaluation) -> None:
        if isinstance(value, dict):
            if self.accepts(value, run):
                self.pass_on(value, run)
        elif isinstance(value, list):
            for index, item in enumerate(value):
                if self.accepts(item, run):
                    self.pass_item(value, index, run)
        elif self.certain:
            raise InvalidPathError("a filter of a scalar")

    def accepts(self, item: Any, run: _Evaluation) -> bool:
        try:
            return self.condition(item, run.root, run.lax)
        except InvalidPathError:
            return False

    def matches(self, value: Any, run: _Evaluation) -> bool:
        return self.accepts(value, run)


@dataclass
class AnyDepth(Step):
    def take(self, value: Any, run: _Evaluation) -> None:
        step = self.following
        if step is None:
            raise JsonPathError("nothing is looked for")
        if not isinstance(value, dict | list):
            return
        if step.matches(value, run):
            step.take(value, run)
        for part in value.values() if isinstance(value, dict) else value:
            self.take(part, run)


@dataclass
class FunctionStep(Step):
    name: str
    parameters: tuple[Path | JsonParameter, ...]

    @property
    def definite(self) -> bool:
        return True

    def take(self, value: Any, run: _Evaluation) -> None:
        function = _FUNCTIONS.get(self.name)
        if function is None:
            raise InvalidPathError(f"no function {self.name}")
        result = function(_Call(value, [_argument(p, run) for p in self.parameters], self.parameters, run.lax))
        run.values.append(result)
        if self.following is not None:
            self.following.take(result, run)


@dataclass(frozen=True)
class JsonParameter:
    """A parameter of a path function, written as JSON."""

    content: Any


def _linked(steps: Sequence[Step]) -> None:
    certain = True
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        step.following, step.certain = following, certain
        certain = certain and (step.definite or isinstance(step, Root))


class Path:
    """A compiled path."""

    def __init__(self, steps: Sequence[Step], of_root: bool) -> None:
        self.steps, self.of_root = list(steps), of_root
        _linked(self.steps)
        self.definite = all(step.definite for step in self.steps)

    def evaluate(self, item: Any, run: _Evaluation) -> list[Any]:
        self.steps[0].take(item, run)
        return run.values

    def value(self, item: Any, root: Any, lax: bool) -> Any:
        """The value at the path, or a list of values if the path is not definite. Lax: None if there is no value.

        Raises:
            PathNotFoundError: the path is definite, and there is no value at it.
            JsonPathError: the path cannot be evaluated.
        """
        return self._result(self.evaluate(root if self.of_root else item, _Evaluation(root, lax)), lax)

    def exists(self, item: Any, root: Any) -> bool:
        """Whether the document contains all names of the path. Raises JsonPathError."""
        try:
            self._result(self.evaluate(item, _Evaluation(root, requires_names=True)), False)
        except PathNotFoundError:
            return False
        return True

    def _result(self, values: list[Any], lax: bool) -> Any:
        if not self.definite:
            return values
        if not values and not lax:
            raise PathNotFoundError("nothing found")
        return values[-1] if values else None

    def read(self, document: Any, lax: bool = False) -> Any:
        """The value or values at the path in a document. Lax: None or an empty list if there are none.

        Raises:
            JsonPathError: there is no value at the path, or it cannot be evaluated.
        """
        values = self.evaluate(document, _Evaluation(document, lax))
        return self._result(values, lax)


def _numbers(values: Any) -> list[float]:
    parts = values if isinstance(values, list) else [values]
    return [float(v) for v in parts if isinstance(v, int | float | Decimal) and not isinstance(v, bool)]


def _argument(parameter: Path | JsonParameter, run: _Evaluation) -> Any:
    return parameter.content if isinstance(parameter, JsonParameter) else parameter.value(run.root, run.root, run.lax)


@dataclass(frozen=True)
class _Call:
    """What a function is called with: the value before it, and its parameters."""

    value: Any
    arguments: list[Any]
    parameters: tuple[Path | JsonParameter, ...]
    lax: bool


Function = Callable[[_Call], Any]


def _aggregate(of: Callable[[list[float]], float]) -> Function:
    def function(call: _Call) -> float:
        parts = [call.value] if isinstance(call.value, list) else []
        numbers = [n for part in [*parts, *call.arguments] for n in _numbers(part)]
        if not numbers:
            raise JsonPathError("no numbers")
        return of(numbers)

    return function


def _sum(numbers: list[float]) -> float:
    total = 0.0
    for number in numbers:
        total += number
    return total


def _deviation(numbers: list[float]) -> float:
    count, total, squares = len(numbers), _sum(numbers), _sum([n * n for n in numbers])
    variance = squares / count - total * total / count / count
    return math.sqrt(variance) if variance >= 0 else math.nan


def _item(index: Callable[[_Call], int]) -> Function:
    def function(call: _Call) -> Any:
        if not isinstance(call.value, list):
            raise JsonPathError("no array")
        position = index(call)
        if position >= 0 or position + len(call.value) > 0:
            return call.value[position]
        raise JsonPathError("the index is beyond the first item")

    return function


def _first_number(call: _Call) -> int:
    numbers = [n for argument in call.arguments for n in _numbers(argument)]
    return int(numbers.pop(0))


def _length(call: _Call) -> int | None:
    """Of the value, or of the parts of what the first parameter leads to."""
    if call.parameters:
        parameter = call.parameters[0]
        if isinstance(parameter, JsonParameter):
            raise JsonPathError("length takes a path")
        if not isinstance(parameter.steps[-1], FunctionStep):
            parameter = Path([*map(replace, parameter.steps), All()], parameter.of_root)
        inner = parameter.value(call.value, call.value, call.lax)
        if isinstance(inner, list):
            return len(inner)
    return len(call.value) if isinstance(call.value, list | dict) else None


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return double_text(value) if isinstance(value, float) else str(value)


def _concat(call: _Call) -> str:
    parts = [v for v in call.value if isinstance(v, str)] if isinstance(call.value, list) else []
    for argument in call.arguments:
        if isinstance(argument, list):
            parts += [_text(v) for v in argument if v is not None]
        elif isinstance(argument, str):
            parts.append(argument)
    return "".join(parts)


_FUNCTIONS: dict[str, Function] = {
    "avg": _aggregate(lambda n: _sum(n) / len(n)),
    "stddev": _aggregate(_deviation),
    "sum": _aggregate(_sum),
    "min": _aggregate(min),
    "max": _aggregate(max),
    "concat": _concat,
    "length": _length,
    "size": _length,
    "append": lambda call: [*call.value, *call.arguments] if isinstance(call.value, list) else call.value,
    "keys": lambda call: list(call.value) if isinstance(call.value, dict) else None,
    "first": _item(lambda call: 0),
    "last": _item(lambda call: -1),
    "index": _item(_first_number),
}
