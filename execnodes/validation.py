"""From pydantic's findings to one clear error, and unknown keys to warnings where they are allowed."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar, get_args

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from stateplan.common.errors import Place, PlanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.ttl import TTL_FORM
from stateplan.execnodes.model import PlanModel, value_text

_M = TypeVar("_M", bound=PlanModel)
_Path = tuple[str | int, ...]


@dataclass(frozen=True)
class PlanWarning:
    """Something odd in a plan that does not stop it from being used.

    Attributes:
        pointer: JSON pointer of the place.
        message: what, in one sentence without a full stop.
        hint: the nearest valid name, or what to do.
    """

    pointer: str
    message: str
    hint: str | None = None

    def __str__(self) -> str:
        return f"{self.message} at {self.pointer or '/'}" + (f" ({self.hint})" if self.hint else "")


class UnknownKey(NamedTuple):
    """A key that was let through: its path in the JSON, its value, and the warning about it."""

    path: tuple[str | int, ...]
    value: Any
    warning: PlanWarning


_EXPECTED_TEXTS = {
    "int_type": "a whole number",
    "int_parsing_size": "a smaller number",
    "bool_type": "true or false",
    "string_type": "a text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "model_attributes_type": "an object",
    "greater_than_equal": "a whole number from {ge}",
    "union_tag_not_found": 'an object with "type"',
}
_MISSING_KEY = ("PLAN041", "")
_MISSING_STATE = {
    "ttl": ("PLAN051", f'"ttl" with {TTL_FORM}'),
    "name": ("PLAN058.no_name", '"name" with a text such as "leftState"'),
}


def escape(step: str | int) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return str(step).replace("~", "~0").replace("/", "~1")


def validate(
    cls: type[_M], data: dict[str, Any], pointer: str = "", strict_unknown: bool = True
) -> tuple[_M, list[UnknownKey]]:
    """``data`` as a ``cls``, and the unknown keys that were let through.

    Raises:
        PlanError: the first finding, with its JSON pointer; unknown keys first, as they explain missing ones.
    """
    try:
        return cls.model_validate(data), []
    except ValidationError as error:
        errors = error.errors(include_url=False)
    extras = [_path(data, item) for item in errors if item["type"] == "extra_forbidden"]
    if not extras or strict_unknown:
        item = next((item for item in errors if item["type"] == "extra_forbidden"), errors[0])
        raise _plan_error(cls, data, item, pointer)
    data_without_extra = copy.deepcopy(data)
    for path in extras:
        del _at(data_without_extra, path[:-1])[path[-1]]
    node, _ = validate(cls, data_without_extra, pointer, strict_unknown=True)
    return node, [
        UnknownKey(
            path,
            _at(data, path),
            PlanWarning(
                pointer + _pointer(path),
                f"unknown key '{path[-1]}'",
                nearest(str(path[-1]), _known_keys(cls, data, path)),
            ),
        )
        for path in extras
    ]


def _at(data: Any, path: _Path) -> Any:
    """The part of the JSON at ``path``."""
    for step in path:
        data = data[step]
    return data


def _pointer(path: _Path) -> str:
    return "".join(f"/{escape(step)}" for step in path)


def _path(data: Any, item: ErrorDetails) -> _Path:
    """The finding's path in the JSON: pydantic's location without the names of union members."""
    steps: list[str | int] = []
    loc = item["loc"]
    for position, step in enumerate(loc):
        if (isinstance(data, dict) and step in data) or (
            isinstance(data, list) and isinstance(step, int) and step < len(data)
        ):
            data = _at(data, (step,))
        elif not (item["type"] == "missing" and position == len(loc) - 1):
            continue
        steps.append(step)
    return tuple(steps)


def _models(annotation: Any) -> Iterator[type[PlanModel]]:
    """The models inside an annotation: of a list's items, of a union's members."""
    if isinstance(annotation, type) and issubclass(annotation, PlanModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _known_keys(cls: type[PlanModel], data: Any, path: _Path) -> list[str]:
    """The keys of the model that holds the last step of ``path``."""
    candidates: Sequence[type[PlanModel]] = [cls]
    for step in path[:-1]:
        data = data[step]
        if isinstance(step, str):
            candidates = [
                model
                for owner in candidates
                for info in owner.model_fields.values()
                if info.alias == step
                for model in _models(info.annotation)
            ]
        if isinstance(data, dict) and len(candidates) > 1:
            candidates = [m for m in candidates if m.__name__ == data.get("type")] or candidates
    return list(dict.fromkeys(key for model in candidates for _, key, _, _ in model.layout()))


def plan_error(error: ValidationError) -> PlanError:
    """The first finding about a model that was made of values; a finding that is not of the project's own is a bug."""
    item = error.errors(include_url=False)[0]
    if item["type"] != "stateplan":
        raise error
    return _own_error(item["ctx"], item["ctx"]["pointer"])


def _own_error(ctx: dict[str, Any], pointer: str) -> PlanError:
    place, expected = Place(pointer=pointer), ctx["expected"]
    return PlanError.with_text(ctx["code"], ctx["message"], place=place, expected=expected, hint=ctx["hint"])


def _plan_error(cls: type[PlanModel], data: Any, item: ErrorDetails, pointer: str) -> PlanError:
    kind, path, ctx = item["type"], _path(data, item), item.get("ctx", {})
    place = Place(pointer=pointer + _pointer(path))
    last = str(path[-1]) if path else ""
    if kind == "stateplan":
        return _own_error(ctx, f"{place.pointer}{ctx['pointer']}")
    if kind == "missing":
        code, expected = _MISSING_STATE.get(last, _MISSING_KEY) if "state" in path else _MISSING_KEY
        inside = Place(pointer=pointer + _pointer(path[:-1]))
        return PlanError(code, key=last, place=inside, expected=expected or f'"{last}"')
    if kind == "extra_forbidden":
        known_keys = _known_keys(cls, data, path)
        return PlanError("PLAN045", key=last, known=", ".join(known_keys), place=place, hint=nearest(last, known_keys))
    subject = _step_text(path)
    if kind in ("literal_error", "union_tag_invalid"):
        names = re.findall(r"'([^']*)'", str(ctx.get("expected") or ctx.get("expected_tags") or ""))
        value = ctx.get("tag", item["input"])
        return PlanError(
            "PLAN046",
            what=subject,
            shown=value_text(value),
            names=", ".join(names),
            place=place,
            hint=nearest(value, names) if isinstance(value, str) else None,
        )
    expected = _EXPECTED_TEXTS.get(kind, "").format(**ctx) or item["msg"]
    return PlanError("PLAN040", what=subject, shown=value_text(item["input"]), place=place, expected=expected)


def _step_text(path: _Path) -> str:
    """What the last step of a path is: ``"leftKeys"``, or ``entry 0 of "leftKeys"``."""
    keys = [step for step in path if isinstance(step, str)]
    if not keys:
        return "the node"
    return f'"{keys[-1]}"' if isinstance(path[-1], str) else f'entry {path[-1]} of "{keys[-1]}"'
