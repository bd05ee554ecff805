"""The fields in which two versions of one operator differ, and of what kind each difference is."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Literal

from pydantic import ValidationError

from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import is_secret, outline, redacted, redacted_value
from stateplan.execnodes.node_text import agg_text
from stateplan.execnodes.nodes.base import TTL_OPTIONS, ExecNode
from stateplan.execnodes.specs import AggCall
from stateplan.functions.rex import rex_from_json
from stateplan.functions.rex_text import rex_text
from stateplan.plans.jsontext import join_pointer, split_pointer
from stateplan.plans.states import node_states

Kind = Literal["words", "ttl", "tuning", "other"]
"""Of a change: only words for people; how long state lives; how the work is done; anything else."""

_SOURCE, _SINK = "/scanTableSource", "/dynamicTableSink"
_RULES: tuple[tuple[str, Kind], ...] = (
    (r"/description", "words"),
    (r"/outputType/names", "words"),
    (r"/aggCalls/\d+/name", "words"),
    (rf"({_SOURCE}|{_SINK})/table/resolvedTable/comment", "words"),
    (rf"({_SOURCE}|{_SINK})/table/resolvedTable/schema/columns/\d+/comment", "words"),
    (rf"({_SOURCE}|{_SINK})/table/resolvedTable/schema/primaryKey/name", "words"),
    (rf"{_SOURCE}/table/resolvedTable/schema/.*", "tuning"),
    (r"/state/\d+/(ttl|updateType|visibility|minTtl)", "ttl"),
    (rf"/configuration/({'|'.join(map(re.escape, TTL_OPTIONS))})", "ttl"),
    (r"/configuration/table\.exec\.mini-batch\..*", "tuning"),
    (r"/inputProperties/\d+/(damBehavior|priority)", "tuning"),
    (rf"{_SOURCE}/table/resolvedTable/options/source\.monitor-interval", "tuning"),
    (rf"{_SOURCE}/table/resolvedTable/options/(.*\.)?(ignore-parse-errors|fail-on-missing-field)", "tuning"),
)
"""The kind of change that a field makes, where it is not ``other``.

Names of fields are words, as the runtime counts fields; but those of a source say which columns it reads. The other
columns of its table do not count.
"""

_KINDS = tuple((re.compile(pattern), kind) for pattern, kind in _RULES)

_OPTION = re.compile(r"/.*/resolvedTable/options(/[^/]*)")

_COLUMNS = re.compile(rf"({_SOURCE}|{_SINK})/table/resolvedTable/schema/columns")

_POSITION = re.compile(rf"{_SOURCE}/table/(identifier|resolvedTable/options/.*)|/type/name")
"""Fields of a source on which it depends what a position in it means."""

SAME_VERSIONS = frozenset({"sink", "table-source-scan"})
"""Operators whose versions differ in nothing."""


@dataclass(frozen=True)
class Change:
    """One field that differs: its JSON pointer in the node and its name for people; None if it is absent."""

    pointer: str
    field: str
    before: str | None
    after: str | None
    kind: Kind

    @property
    def moves_source(self) -> bool:
        """Whether a source's position before the change may mean nothing after it."""
        return self.kind == "other" and _POSITION.fullmatch(self.pointer) is not None

    @property
    def option(self) -> str | None:
        """The key of the option of a table that differs; None if it is something else."""
        option = _OPTION.fullmatch(self.pointer)
        return None if option is None else split_pointer(option[1])[0]

    @property
    def is_number(self) -> bool:
        """Whether it is about a number, such as the position of a field."""
        return all(value is None or value.isdecimal() for value in (self.before, self.after))

    def __str__(self) -> str:
        return f"{self.field}: {'nothing' if self.before is None else self.before} -> " + (
            "nothing" if self.after is None else self.after
        )


def legible(changes: Sequence[Change]) -> Sequence[Change]:
    """The changes whose two texts differ, or all if none does: an expression may name the same field at another
    position."""
    return [c for c in changes if c.before != c.after] or changes


def node_changes(old: ExecNode, new: ExecNode, names: tuple[Sequence[str], Sequence[str]]) -> Iterator[Change]:
    """The fields in which two nodes differ; ids and uids are omitted.

    Args:
        old, new: the nodes.
        names: the names of the input fields of each, for expressions.
    """
    if old == new.replace(id=old.id, stateplan=old.stateplan):
        return
    for pointer, before, after in _differences(_fields(old), _fields(new)):
        kind = _kind(pointer)
        if pointer == "/type/version" and new.title in SAME_VERSIONS:
            kind = "words"
        elif pointer == "/outputType/names" and new.input_count == 0:
            kind = "other"
        option = _OPTION.fullmatch(pointer)
        key = "" if option is None else split_pointer(option[1])[0]
        if option is not None and _same_outline(key, before, after):
            kind = "tuning"
        values = _without_secrets(key, before), _without_secrets(key, after)
        was, now = _column_texts(*values) if _COLUMNS.fullmatch(pointer) else _texts(*values, names)
        yield Change(pointer, _label(pointer, new), *_clipped(was, now), kind)


def _same_outline(key: str, old: Any, new: Any) -> bool:
    """Whether two values of an option differ in nothing but a secret, or how it is written."""
    texts = isinstance(old, str) and isinstance(new, str)
    return is_secret(key) or (texts and outline(key, old) == outline(key, new))


def _without_secrets(key: str, value: Any) -> Any:
    """A value of a plan as it is shown; ``key`` is that of a table's option, or empty."""
    if isinstance(value, dict) and not key and value and not is_rex(value):
        return {name: _without_secrets(name, inner) for name, inner in value.items()}
    return redacted(redacted_value(key, value)) if isinstance(value, str) else value


@cache
def _kind(pointer: str) -> Kind:
    return next((kind for pattern, kind in _KINDS if pattern.fullmatch(pointer)), "other")


def meaningful(node: ExecNode) -> dict[str, Any]:
    """The node's JSON without anything whose change is of another kind than ``other``, and without its inputs'
    distributions, which follow from the rest."""
    data = {k: v for k, v in _complete_json(node).items() if k not in _NO_MEANING}
    data["type"] = [node.name, "" if node.title in SAME_VERSIONS else node.type.rpartition("_")[2]]
    return {k: _without_soft(v, f"/{k}") if k in _WITH_SOFT else v for k, v in data.items()}


_NO_MEANING = frozenset({"id", "stateplan", "state", "type", "description", "inputProperties", "outputType"})


_WITH_SOFT = frozenset({"aggCalls", "configuration", "dynamicTableSink", "scanTableSource", "temporalTable"})
"""Keys of nodes with something inside that is more than words, TTLs and tuning, and something that is not."""


def _without_soft(value: Any, at: str) -> Any:
    if isinstance(value, dict):
        if is_rex(value):
            return value
        fields = {}
        for key, inner in value.items():
            pointer = at + join_pointer([key])
            if isinstance(inner, str) and _OPTION.fullmatch(pointer):
                if is_secret(key):
                    continue
                inner = outline(key, inner)
            if _kind(pointer) == "other":
                fields[key] = _without_soft(inner, pointer)
        return fields
    if isinstance(value, list):
        return [_without_soft(inner, f"{at}/{i}") for i, inner in enumerate(value)]
    return value


def _complete_json(node: ExecNode) -> dict[str, Any]:
    """The node's JSON with the keys that older releases omitted."""
    return {**node.absent_means(), **node.to_json()}


def _fields(node: ExecNode) -> dict[str, Any]:
    """The node's JSON as it is compared: without ids, uids and states, the output's names apart from its types."""
    data = {k: v for k, v in _complete_json(node).items() if k not in ("id", "stateplan", "state", "type")}
    data["type"] = {"name": node.name, "version": node.type.rpartition("_")[2]}
    row = node.output_type
    data["outputType"] = {"names": [f.name for f in row.fields], "types": [f.type.to_json() for f in row.fields]}
    data["state"] = [
        {
            "name": s.name,
            "ttl": s.ttl_text if s.source not in ("none", "time") else "the session's TTL",
            "updateType": s.update_type,
            "visibility": s.visibility,
            "timeCharacteristic": s.time_characteristic,
        }
        for s in node_states(node, "")
    ]
    return data


_ABSENT = object()
_REX = frozenset(
    {"INPUT_REF", "LITERAL", "CALL", "FIELD_ACCESS", "CORREL_VARIABLE", "PATTERN_INPUT_REF", "TABLE_ARG_CALL"}
)


def is_rex(value: Any) -> bool:
    """Whether JSON looks like a row expression."""
    kind = value.get("kind") if isinstance(value, dict) else None
    return isinstance(kind, str) and kind in _REX


def _differences(old: Any, new: Any) -> Iterator[tuple[str, Any, Any]]:
    """(JSON pointer, before, after) of what differs: the innermost values, whole expressions, lists of other length."""
    stack: list[tuple[Any, Any, str]] = [(old, new, "")]
    while stack:
        before, after, at = stack.pop()
        are_objects = isinstance(before, dict) and isinstance(after, dict) and not is_rex(before)
        if are_objects and ("argList" not in before or _without_name(before) == _without_name(after)):
            for key in reversed(list(dict.fromkeys((*before, *after)))):
                stack.append((before.get(key, _ABSENT), after.get(key, _ABSENT), at + join_pointer([key])))
        elif at != "/outputType/names" and _same_length(before, after):
            stack.extend((before[i], after[i], f"{at}/{i}") for i in range(len(before) - 1, -1, -1))
        elif type(before) is not type(after) or before != after:
            yield at, before, after


def _without_name(call: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in call.items() if k != "name"}


def _same_length(before: Any, after: Any) -> bool:
    return isinstance(before, list) and isinstance(after, list) and len(before) == len(after)


_LABELS = (
    (re.compile(r"/(?:scanTableSource|dynamicTableSink)/table/resolvedTable/options/(.*)"), "option {}"),
    (re.compile(r"/(?:scanTableSource|dynamicTableSink)/table/resolvedTable/schema/(.*)"), "table {}"),
    (re.compile(r"/(?:scanTableSource|dynamicTableSink)/(.*)"), "{}"),
    (re.compile(r"/configuration/(.*)"), "configuration {}"),
    (re.compile(r"/outputType/(.*)"), "output {}"),
)


def _label(pointer: str, node: ExecNode) -> str:
    state = re.fullmatch(r"/state/(\d+)/(.*)", pointer)
    if state:
        name = node.state_names[int(state.group(1))] if int(state.group(1)) < len(node.state_names) else "state"
        return name if state.group(2) == "ttl" else f"{name} {state.group(2)}"
    for pattern, label in _LABELS:
        match = pattern.fullmatch(pointer)
        if match:
            return label.format(_dotted("/" + match.group(1)))
    return _dotted(pointer)


def _dotted(pointer: str) -> str:
    return "".join(f"[{p}]" if p.isdecimal() else f".{p}" for p in split_pointer(pointer)).removeprefix(".")


def _texts(before: Any, after: Any, names: tuple[Sequence[str], Sequence[str]]) -> tuple[str | None, str | None]:
    """Two values that differ, for people; None for an absent one."""
    was, now = (None if v is _ABSENT else _words(v, n) for v, n in zip((before, after), names, strict=True))
    if was == now:
        return _with_type(was, before), _with_type(now, after)
    return was, now


def _column_texts(before: Any, after: Any) -> tuple[str | None, str | None]:
    """Of the columns of two tables, those that the other side lacks; all of them where only their order differs."""
    sides = tuple(value if isinstance(value, list) else [] for value in (before, after))
    lacking = [c for c in sides[0] if c not in sides[1]], [c for c in sides[1] if c not in sides[0]]
    was, now = (", ".join(map(_column_text, c)) or None for c in (lacking if any(lacking) else sides))
    return was, now


def _column_text(column: Any) -> str:
    """A column of a table as DDL writes it, without its comment."""
    if not isinstance(column, dict):
        return _words(column, ())
    name, data_type, expression = (column.get(key) for key in ("name", "dataType", "expression"))
    if isinstance(expression, dict) and "serializableString" in expression:
        return f"{name} AS {expression['serializableString']}"
    metadata = " METADATA" if column.get("kind") == "METADATA" else ""
    return f"{name} {_words(data_type, ())}{metadata}" if data_type is not None else str(name)


def _with_type(text: str | None, value: Any) -> str:
    """``text`` of an expression or a call with its type, by which two of the same text may differ."""
    return f"{text} ({_words(value['type'], ())})" if isinstance(value, dict) and "type" in value else str(text)


_MOST = 120
"""How many characters of a value are shown."""


def _clipped(before: str | None, after: str | None) -> tuple[str | None, str | None]:
    """Two values, at most :data:`_MOST` characters of each, with the place where they begin to differ."""
    common = sum(
        1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before or "", after or "", strict=False))
    )
    start = max(0, common - _MOST // 3)
    return _part(before, start), _part(after, start)


def _part(text: str | None, start: int) -> str | None:
    """The text from about ``start`` on; all of it where that is short enough."""
    if text is None or len(text) <= _MOST:
        return text
    start = min(start, len(text) - _MOST)
    head = "..." if start else ""
    tail = "..." if len(text) - start > _MOST else ""
    return f"{head}{text[start + len(head) : start + _MOST - len(tail)]}{tail}"


def _words(value: Any, names: Sequence[str]) -> str:
    if isinstance(value, str):
        return value if value else "''"
    if isinstance(value, list):
        return "[" + ", ".join(_words(v, names) for v in value) + "]"
    with contextlib.suppress(StateplanError, ValidationError):  # JSON that a node keeps unread only looks like one
        if is_rex(value):
            return rex_text(rex_from_json(value), names)
        if isinstance(value, dict) and "argList" in value:
            return agg_text(AggCall.model_validate(value), names)
    return json.dumps(value, ensure_ascii=False)
