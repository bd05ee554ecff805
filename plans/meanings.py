"""The terms of :mod:`plans.lineage`: what operators emit and keep, and what fields and calls mean, as hashes that two
plans can be compared by."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

from pydantic import ValidationError

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.types import LogicalType
from stateplan.functions.rex import Rex, rex_from_json


def hashed(*values: Any) -> str:
    """A hash of JSON values."""
    text = json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=12).hexdigest()


@dataclass(frozen=True)
class Expression:
    """An expression of fields: a value, or one of the conditions that rows have met.

    Attributes:
        text: its JSON with hashes of fields, in a canonical form.
        fields: the hashes of the fields that it reads.
        settings: options that the operator was compiled with, as JSON.
    """

    text: str
    fields: frozenset[str]
    settings: str = "{}"

    @property
    def value(self) -> Any:
        """Its JSON with hashes of fields."""
        return json.loads(self.text)

    @staticmethod
    def of(value: Any, settings: Mapping[str, str]) -> Expression:
        """From its JSON with hashes of fields."""
        text, options = (
            json.dumps(part, sort_keys=True, ensure_ascii=False, separators=(",", ":")) for part in (value, settings)
        )
        return Expression(text, frozenset(_fields_in(value)), options)

    def over(self, placed_field: Callable[[str], Any]) -> Rex | None:
        """The expression over other fields; None where it is no expression.

        Args:
            placed_field: from the hash of a field to the JSON of what takes its place.
        """

        def with_positions(value: Any) -> Any:
            if is_field(value):
                return placed_field(value["field"])
            if isinstance(value, dict):
                return {key: with_positions(inner) for key, inner in value.items()}
            return [with_positions(inner) for inner in value] if isinstance(value, list) else value

        with contextlib.suppress(StateplanError, ValidationError):
            return rex_from_json(with_positions(self.value))
        return None


@dataclass(frozen=True)
class FieldMeanings:
    """What the hashes of the fields of a plan stand for.

    Attributes:
        expressions: the expressions of computed fields.
        integers: of fields of whole numbers, a hash that does not depend on the type, and the type. Two fields with the
            same one hold the same numbers.
        types: of fields.
    """

    expressions: dict[str, Expression] = field(default_factory=dict)
    integers: dict[str, tuple[str, LogicalType]] = field(default_factory=dict)
    types: dict[str, LogicalType] = field(default_factory=dict)

    def values(self, field_hash: str) -> str:
        """The hash of the values of a field, whatever its type."""
        return self.integers[field_hash][0] if field_hash in self.integers else field_hash

    def typedhashed(self, values: str, kind: LogicalType, widens: bool = True) -> str:
        """The hash of a field.

        Args:
            values: the hash of its values.
            kind: its type.
            widens: whether it would hold the same numbers with a wider type.
        """
        name = hashed(values, layout_type(kind))
        if widens and kind.is_integer:
            self.integers[name] = values, kind
        return name

    def passed_on(self, way: str, field_hash: str) -> str:
        """The hash of a field that an operator passes on."""
        if field_hash in self.integers:
            values, kind = self.integers[field_hash]
            return self.typedhashed(hashed(way, values), kind)
        return hashed(way, field_hash)


def layout_type(kind: LogicalType) -> Any:
    """What state depends on of a type: neither NULLs nor the length of text matter."""
    if kind.is_string or kind.root in ("BINARY", "VARBINARY"):
        return "text" if kind.is_string else "bytes"
    return kind.as_nullable().to_json()


@dataclass(frozen=True)
class CallMeaning:
    """What an aggregate call computes.

    Attributes:
        function: its name.
        arguments: the hash of each argument.
        condition: the hash of the field that filters it; None without one.
        type: the type of its result, as far as state depends on it.
        argument_types: of its arguments, likewise.
        rest: everything else, as a hash.
    """

    function: str
    arguments: tuple[str, ...]
    condition: str | None
    type: str
    argument_types: tuple[str, ...]
    rest: str


@dataclass(frozen=True)
class Lineage:
    """What an operator emits, and what its state depends on.

    Attributes:
        rows: the rows of the changes, whatever fields they have.
        fields: of each output field.
        state: of what its state means, but for the fields that are stored.
        calls: of each aggregate call, where the operator is an aggregate.
        unfiltered: as ``rows``, before :attr:`conditions`.
        conditions: those that the rows have met since.
        groups: what its state means before conditions, of an operator whose state can follow from that of another one:
            but for the key, the calls of an aggregate, the end of a ranking, and the type and the bounds of a join.
        row_conditions: those that the rows that it keeps have to meet.
        meanings: the meanings of the fields of the plan.
        is_empty: whether it has got no row yet, as all sources in front of it are new.
    """

    rows: str
    fields: tuple[str, ...]
    state: str
    calls: tuple[CallMeaning, ...] = ()
    unfiltered: str = ""
    conditions: frozenset[Expression] = frozenset()
    groups: str = ""
    row_conditions: frozenset[Expression] = frozenset()
    meanings: FieldMeanings = field(default_factory=FieldMeanings, compare=False, repr=False)
    is_empty: bool = field(default=False, compare=False)

    @property
    def origin(self) -> str:
        """The rows before any condition."""
        return self.unfiltered or self.rows


def is_field(rex: Any) -> bool:
    """Whether JSON is the hash of a field."""
    return isinstance(rex, dict) and rex.keys() == {"field"}


def _fields_in(value: Any) -> Iterator[str]:
    """The hashes of the fields that an expression reads."""
    if is_field(value):
        yield value["field"]
    elif isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from _fields_in(inner)
