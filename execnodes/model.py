"""Base of everything a plan's JSON holds: frozen, typed, forbidding, written in Flink's key order."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache, lru_cache
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, PlainValidator, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.readable import shorten
from stateplan.common.types import LogicalType, parse_type, type_from_json
from stateplan.functions.rex import Rex, rex_from_json


class _Always:
    """Marks a field that Flink writes even when it is null or empty."""


ALWAYS = _Always()


class _Cosmetic:
    """Marks a field that may change without changing what the state of its operator means."""


COSMETIC = _Cosmetic()


@dataclass(frozen=True)
class AbsentMeans:
    """Marks a field whose key plans of older releases do not have: the value that its absence means."""

    value: Any


def to_json(value: Any) -> Any:
    """``value`` of a model's field as JSON-ready data."""
    if isinstance(value, (PlanModel, LogicalType, Rex)):
        return value.to_json()
    if isinstance(value, tuple):
        return [to_json(v) for v in value]
    if isinstance(value, Mapping):
        return {k: to_json(v) for k, v in value.items()}
    return value


class PlanModel(BaseModel):
    """One JSON object of a plan. Attributes are snake case, keys camel case; unknown keys are refused.

    ``to_json`` writes the keys in the order of declaration. A field with a default is omitted while it has that value,
    unless it is called ``type`` or annotated with :data:`ALWAYS`.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
        arbitrary_types_allowed=True,
        defer_build=True,
        protected_namespaces=(),
        loc_by_alias=True,
    )

    _layout: ClassVar[tuple[tuple[str, str, bool, Any], ...] | None] = None

    @classmethod
    def layout(cls) -> tuple[tuple[str, str, bool, Any], ...]:
        """(attribute, key, whether always written, default) of each field, in the order they are written."""
        layout = cls.__dict__.get("_layout")
        if layout is None:
            layout = tuple(
                (
                    name,
                    info.alias or name,
                    name == "type" or info.is_required() or ALWAYS in info.metadata,
                    info.default,
                )
                for name, info in cls.model_fields.items()
            )
            cls._layout = layout
        return layout

    def to_json(self) -> dict[str, Any]:
        """The JSON object, keys in Flink's order."""
        fields: dict[str, Any] = {}
        values = vars(self)
        for name, key, always, default in self.layout():
            value = values[name]
            if always or value != default:
                fields[key] = to_json(value)
        return fields

    @classmethod
    @cache
    def cosmetic_keys(cls) -> frozenset[str]:
        """The keys of fields marked with :data:`COSMETIC`."""
        return frozenset(info.alias or name for name, info in cls.model_fields.items() if COSMETIC in info.metadata)

    @classmethod
    @cache
    def absent_means(cls) -> Mapping[str, Any]:
        """Keys that plans of older releases do not have, and the value that their absence means."""
        return {
            info.alias or name: mark.value
            for name, info in cls.model_fields.items()
            for mark in info.metadata
            if isinstance(mark, AbsentMeans)
        }

    def meaning(self) -> dict[str, Any]:
        """The JSON object without cosmetic keys."""
        return {key: value for key, value in self.to_json().items() if key not in self.cosmetic_keys()}


def meaning_of(value: Any) -> Any:
    """As :func:`to_json`, of models what they mean."""
    if isinstance(value, PlanModel):
        return value.meaning()
    return [meaning_of(v) for v in value] if isinstance(value, tuple) else to_json(value)


def value_text(value: Any) -> str:
    """A JSON value in a message: as JSON, cut short; just its kind for a list or object."""
    if isinstance(value, dict):
        return "an object" if value else "{}"
    if isinstance(value, list):
        return "a list" if value else "[]"
    text = json.dumps(value, ensure_ascii=False, default=str)
    return shorten(text)


def custom_error(error: StateplanError, pointer: str = "") -> PydanticCustomError:
    """``error`` as one that pydantic collects with its place; ``pointer`` continues from that place."""
    return PydanticCustomError(
        "stateplan",
        "{message}",
        {
            "code": error.code,
            "message": error.message,
            "expected": error.expected,
            "hint": error.hint,
            "pointer": pointer,
        },
    )


_parse_text = lru_cache(maxsize=4096)(parse_type)


def _read_type(value: Any) -> LogicalType:
    if isinstance(value, LogicalType):
        return value
    try:
        return _parse_text(value) if isinstance(value, str) else type_from_json(value)
    except StateplanError as error:
        raise custom_error(error) from None


def _read_row(value: Any) -> LogicalType:
    read = _read_type(value)
    if read.root != "ROW":
        raise custom_error(StateplanError("PLAN043", read=read.summary()))
    return read


def _read_rex(value: Any) -> Rex:
    if isinstance(value, Rex):
        return value
    try:
        return rex_from_json(value)
    except StateplanError as error:
        raise custom_error(error, _failing_operand(value)) from None


def _failing_operand(value: Any) -> str:
    """Pointer from the expression ``value`` to the innermost operand that cannot be read."""
    if not isinstance(value, dict):
        return ""
    operands = value.get("operands")
    parts = [(f"/operands/{i}", v) for i, v in enumerate(operands)] if isinstance(operands, list) else []
    if value.get("kind") == "FIELD_ACCESS":
        parts.append(("/expr", value.get("expr")))
    for pointer, part in parts:
        try:
            rex_from_json(part)
        except StateplanError:
            return pointer + _failing_operand(part)
    return ""


NULL_IS_EMPTY = BeforeValidator(lambda value: () if value is None else value)
"""Marks a list that Flink reads as empty if it is null."""


def _read_option(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


_TYPE_SCHEMA = WithJsonSchema({"type": ["string", "object"], "title": "LogicalType"})
_write = PlainSerializer(lambda value: value.to_json())

TypeField = Annotated[LogicalType, PlainValidator(_read_type), _write, _TYPE_SCHEMA]
"""A logical type, as text or object."""

RowTypeField = Annotated[LogicalType, PlainValidator(_read_row), _write, _TYPE_SCHEMA]
"""A ROW type, as text or object."""

RexField = Annotated[
    Rex,
    PlainValidator(_read_rex),
    _write,
    WithJsonSchema({"type": "object", "title": "RexNode", "required": ["kind"]}),
]
"""A row expression."""

Index = Annotated[int, Field(strict=True, ge=0)]
"""A field's position, from 0."""

Flag = Annotated[bool, Field(strict=True)]
"""true or false; a text or number is refused."""

Text = Annotated[str, Field(strict=True)]
"""A text; a number is refused."""

OptionText = Annotated[str, BeforeValidator(_read_option), Field(strict=True)]
"""The text of an option's value; Flink also reads a JSON number or boolean there."""

JsonObject = dict[str, Any]
