"""Changes to the text of a plan: what to replace where, so that every other byte stays, and the diff they make."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple, TypeAlias

from stateplan.common.redaction import redacted
from stateplan.common.ttl import format_ttl
from stateplan.execnodes.nodes.base import ExecNode
from stateplan.plans import jackson
from stateplan.plans.jsontext import Location, SourceMap, join_pointer


class Splice(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text, and what comes in their place."""

    start: int
    end: int
    new: str


def apply_splices(text: str, splices: Iterable[Splice]) -> str:
    """The text with all splices made; they must not overlap."""
    parts, at = [], 0
    for start, end, new in sorted(splices):
        parts += [text[at:start], new]
        at = end
    return "".join([*parts, text[at:]])


def ttl_splice(source: SourceMap, pointer: str, slot: int, ms: int) -> Splice:
    """Another TTL in the entry of one state.

    Args:
        source: the plan's text.
        pointer: the node, which has state entries.
        slot: index of the state.
        ms: milliseconds.
    """
    at = f"{pointer}/state"
    entries = _value(source, at)
    position = next(i for i, entry in enumerate(entries) if int(entry.get("index", 0)) == slot)
    span = _location_of(source, f"{at}/{position}/ttl").value
    return Splice(span.start, span.end, jackson.quote(format_ttl(ms)))


def value_splice(source: SourceMap, pointer: str, value: str) -> Splice:
    """Another text in the place of the one at ``pointer``."""
    span = _location_of(source, pointer).value
    return Splice(span.start, span.end, jackson.quote(value))


def state_splice(source: SourceMap, pointer: str, node: ExecNode, ttls: Sequence[int]) -> Splice:
    """A list of state entries where Flink would write it, in the style of the text around it.

    Args:
        source: the plan's text.
        pointer: the node, which has no state entries.
        node: the same as a model.
        ttls: milliseconds of each state by index.
    """
    entries = [
        {"index": i, "ttl": format_ttl(ms), "name": name}
        for i, (ms, name) in enumerate(zip(ttls, node.state_names, strict=True))
    ]
    return member_splice(source, pointer, "state", entries, [key for _, key, _, _ in node.layout()])


def option_splice(source: SourceMap, pointer: str, node: ExecNode, key: str, value: str) -> Splice:
    """An option in the configuration of a node, in the style of the text around it.

    Args:
        source: the plan's text.
        pointer: the node.
        node: the same as a model.
        key, value: the option.
    """
    if node.configuration:
        return member_splice(source, f"{pointer}/configuration", key, value, ())
    return member_splice(source, pointer, "configuration", {key: value}, [name for _, name, _, _ in node.layout()])


def member_splice(source: SourceMap, pointer: str, key: str, value: Any, order: Sequence[str]) -> Splice:
    """Another value of a key of an object, or the key where it comes in ``order``, else last."""
    keys = list(_value(source, pointer))
    if not keys:
        location = _location_of(source, pointer)
        return Splice(location.value.start, location.value.end, styled({key: value}, *_around(source, location)))
    own = source.location(pointer + join_pointer([key]))
    later_keys = [k for k in order[order.index(key) + 1 :] if k in keys] if own is None and key in order else []
    anchor = _location_of(source, f"{pointer}{join_pointer([later_keys[0] if later_keys else keys[-1]])}")
    if anchor.key is None:
        raise AssertionError("a member of an object has a key")
    blank, colon = _around(source, anchor)
    text, name = styled(value, blank, colon), jackson.quote(key)
    if own is not None:
        return Splice(own.value.start, own.value.end, text)
    if later_keys:
        return Splice(anchor.key.start, anchor.key.start, f"{name}{colon}{text},{blank}")
    return Splice(anchor.value.end, anchor.value.end, f",{blank}{name}{colon}{text}")


def _around(source: SourceMap, member: Location) -> tuple[str, str]:
    """What is before the key of a member, and between key and value."""
    if member.key is None:
        return "", ": "
    start = len(source.text[: member.key.start].rstrip(" \t\r\n"))
    return source.text[start : member.key.start], source.text[member.key.end : member.value.start]


def removal_splice(source: SourceMap, pointer: str, key: str) -> Splice:
    """A key of an object taken out, with the comma that is no longer needed."""
    keys = list(_value(source, pointer))
    position = keys.index(key)
    own = _location_of(source, pointer + join_pointer([key]))
    start, end = own.key.start if own.key else own.value.start, own.value.end
    if position:
        start = _location_of(source, pointer + join_pointer([keys[position - 1]])).value.end
    elif len(keys) > 1:
        next_location = _location_of(source, pointer + join_pointer([keys[1]]))
        end = next_location.key.start if next_location.key else next_location.value.start
    return Splice(start, end, "")


def _value(source: SourceMap, pointer: str) -> Any:
    span = _location_of(source, pointer).value
    return json.loads(source.text[span.start : span.end])


def _location_of(source: SourceMap, pointer: str) -> Location:
    location = source.location(pointer)
    if location is None:
        raise AssertionError(f"{pointer} is in the plan")
    return location


def styled(value: Any, blank: str, colon: str) -> str:
    """``value`` as JSON text that fits in: on one line or in Jackson's layout, as the text around it is."""
    if "\n" not in blank and "\r" not in blank:
        separators = (", " if blank else ",", colon if colon.endswith(" ") else ":")
        return json.dumps(value, ensure_ascii=False, separators=separators)
    newline = "\r\n" if "\r\n" in blank else "\n" if "\n" in blank else "\r"
    indent = blank.rpartition(newline[-1])[2]
    return jackson.dumps(value).replace(" : ", colon).replace("\n", newline + indent)


_Opcode: TypeAlias = tuple[Literal["replace", "delete", "insert", "equal"], int, int, int, int]

_FAR = 200
"""Lines that are looked at, from a change on, for where the texts continue alike."""


def unified_diff(before: str, after: str, old: str, new: str, context: int = 3) -> str:
    """How two texts differ, as ``diff -u`` shows it: quick where changes are small, however long the texts are.

    Lines end with LF; empty if nothing changes. Stars stand for secrets.

    Args:
        before, after: the texts.
        old, new: names for them.
        context: number of unchanged lines around each change.
    """
    if before == after:
        return ""
    lines = _lines(before), _lines(after)
    parts = [f"--- {old}\n", f"+++ {new}\n"]
    for group in _Matcher(*lines).get_grouped_opcodes(context):
        (_, i, _, j, _), (_, _, i_end, _, j_end) = group[0], group[-1]
        parts.append(f"@@ -{_range(i, i_end - i)} +{_range(j, j_end - j)} @@\n")
        for tag, a, b, c, d in group:
            parts += [_diff_line(" " if tag == "equal" else "-", line) for line in lines[0][a:b]]
            parts += [_diff_line("+", line) for line in lines[1][c:d] if tag != "equal"]
    return redacted("".join(parts))


class _Matcher(SequenceMatcher[str]):
    """Goes through two texts line by line, and compares as ``difflib`` does only where they differ."""

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        super().__init__()
        self.before, self.after = before, after

    def get_opcodes(self) -> list[_Opcode]:
        opcodes: list[_Opcode] = []
        before, after = self.before, self.after
        i = j = 0
        while i < len(before) or j < len(after):
            start = i
            while i < len(before) and j < len(after) and before[i] == after[j]:
                i, j = i + 1, j + 1
            if i > start:
                opcodes.append(("equal", start, i, j - (i - start), j))
            removed_lines, come = _alike(before, i, after, j)
            part = SequenceMatcher(None, before[i : i + removed_lines], after[j : j + come])
            opcodes += [(tag, i + a, i + b, j + c, j + d) for tag, a, b, c, d in part.get_opcodes()]
            i, j = i + removed_lines, j + come
        return opcodes


def _alike(before: Sequence[str], i: int, after: Sequence[str], j: int) -> tuple[int, int]:
    """How many lines of each text to pass over until three lines, or the ends, are the same."""
    for total in range(1, _FAR):
        for removed_lines in range(total + 1):
            one, other = (
                before[i + removed_lines : i + removed_lines + 3],
                after[j + total - removed_lines : j + total - removed_lines + 3],
            )
            if one == other and (len(one) == 3 or i + removed_lines + len(one) == len(before)):
                return removed_lines, total - removed_lines
    return len(before) - i, len(after) - j


def _lines(text: str) -> list[str]:
    """The lines of a text, each with its LF."""
    *lines, rest = text.split("\n")
    return [*(line + "\n" for line in lines), *([rest] if rest else [])]


def _range(start: int, count: int) -> str:
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _diff_line(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
