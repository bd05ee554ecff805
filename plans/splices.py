"""Changes to the text of a plan: what to replace where, so that every other byte stays, and the diff they make."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from stateplan.execnodes.nodes.base import ExecNode
from stateplan.execnodes.ttl import format_ttl
from stateplan.plans import jackson
from stateplan.plans.jsontext import Location, SourceMap, join_pointer


class Splice(NamedTuple):
    """Characters ``start`` to ``end`` (exclusive) of a text, and what comes in their place."""

    start: int
    end: int
    new: str


def applied(text: str, splices: Iterable[Splice]) -> str:
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
    span = _located(source, f"{at}/{position}/ttl").value
    return Splice(span.start, span.end, jackson.quote(format_ttl(ms)))


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
        held = _located(source, pointer)
        return Splice(held.value.start, held.value.end, styled({key: value}, *_around(source, held)))
    own = source.location(pointer + join_pointer([key]))
    later = [k for k in order[order.index(key) + 1 :] if k in keys] if own is None and key in order else []
    anchor = _located(source, f"{pointer}{join_pointer([later[0] if later else keys[-1]])}")
    if anchor.key is None:
        raise AssertionError("a member of an object has a key")
    blank, colon = _around(source, anchor)
    text, name = styled(value, blank, colon), jackson.quote(key)
    if own is not None:
        return Splice(own.value.start, own.value.end, text)
    if later:
        return Splice(anchor.key.start, anchor.key.start, f"{name}{colon}{text},{blank}")
    return Splice(anchor.value.end, anchor.value.end, f",{blank}{name}{colon}{text}")


def _around(source: SourceMap, member: Location) -> tuple[str, str]:
    """What stands before the key of a member, and between key and value."""
    if member.key is None:
        return "", ": "
    before = len(source.text[: member.key.start].rstrip(" \t\r\n"))
    return source.text[before : member.key.start], source.text[member.key.end : member.value.start]


def removal_splice(source: SourceMap, pointer: str, key: str) -> Splice:
    """A key of an object taken out, with the comma that is no longer needed."""
    keys = list(_value(source, pointer))
    position = keys.index(key)
    own = _located(source, pointer + join_pointer([key]))
    start, end = own.key.start if own.key else own.value.start, own.value.end
    if position:
        start = _located(source, pointer + join_pointer([keys[position - 1]])).value.end
    elif len(keys) > 1:
        later = _located(source, pointer + join_pointer([keys[1]]))
        end = later.key.start if later.key else later.value.start
    return Splice(start, end, "")


def _value(source: SourceMap, pointer: str) -> Any:
    span = _located(source, pointer).value
    return json.loads(source.text[span.start : span.end])


def _located(source: SourceMap, pointer: str) -> Location:
    found = source.location(pointer)
    if found is None:
        raise AssertionError(f"{pointer} is in the plan")
    return found


def styled(value: Any, blank: str, colon: str) -> str:
    """``value`` as JSON text that fits in: on one line or in Jackson's layout, as the text around it is."""
    if "\n" not in blank and "\r" not in blank:
        separators = (", " if blank else ",", colon if colon.endswith(" ") else ":")
        return json.dumps(value, ensure_ascii=False, separators=separators)
    newline = "\r\n" if "\r\n" in blank else "\n" if "\n" in blank else "\r"
    indent = blank.rpartition(newline[-1])[2]
    return jackson.dumps(value).replace(" : ", colon).replace("\n", newline + indent)


_FAR = 200
"""Lines that are looked at, from a change on, for where the texts go on alike."""


def line_splices(old: str, new: str) -> list[Splice]:
    """What makes ``new`` of ``old``, in whole lines: quick where changes are small, however long the texts are."""
    before, after = _lines(old), _lines(new)
    out, i, j, at = [], 0, 0, 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and before[i] == after[j]:
            at += len(before[i])
            i, j = i + 1, j + 1
            continue
        gone, come = _alike(before, i, after, j)
        end = at + sum(map(len, before[i : i + gone]))
        out.append(Splice(at, end, "".join(after[j : j + come])))
        at, i, j = end, i + gone, j + come
    return out


def _alike(before: Sequence[str], i: int, after: Sequence[str], j: int) -> tuple[int, int]:
    """How many lines of each text to pass over until three lines, or the ends, are the same."""
    for total in range(1, _FAR):
        for gone in range(total + 1):
            one, other = before[i + gone : i + gone + 3], after[j + total - gone : j + total - gone + 3]
            if one == other and (len(one) == 3 or i + gone + len(one) == len(before)):
                return gone, total - gone
    return len(before) - i, len(after) - j


class _Block(NamedTuple):
    """Lines ``start`` to ``end`` (exclusive, from 0) that are replaced by ``new``."""

    start: int
    end: int
    new: list[str]


def unified_diff(text: str, splices: Iterable[Splice], old: str, new: str, context: int = 3) -> str:
    """What the splices change, as ``diff -u`` shows it. Lines end with LF; empty when nothing changes.

    Args:
        text: the text before.
        splices: what is replaced in it; they must not overlap.
        old, new: names for the two versions.
        context: number of unchanged lines around each change.
    """
    lines = _lines(text)
    blocks = list(_blocks(text, lines, sorted(splices)))
    if not blocks:
        return ""
    out = [f"--- {old}\n", f"+++ {new}\n"]
    group: list[_Block] = []
    shift = 0
    for block in blocks:
        if group and block.start - group[-1].end > 2 * context:
            shift = _hunk(lines, group, shift, context, out)
            group = []
        group.append(block)
    _hunk(lines, group, shift, context, out)
    return "".join(out)


def _lines(text: str) -> list[str]:
    """The lines of a text, each with its LF."""
    *whole, rest = text.split("\n")
    return [*(line + "\n" for line in whole), *([rest] if rest else [])]


def _blocks(text: str, lines: Sequence[str], splices: Sequence[Splice]) -> Iterator[_Block]:
    """The splices as whole lines, without lines that stay the same."""
    starts = [0, *accumulate(map(len, lines[:-1]))]
    rows = [(bisect_right(starts, s.start) - 1, bisect_right(starts, max(s.start, s.end)), s) for s in splices]
    while rows:
        first, last, members = rows[0][0], rows[0][1], [rows[0][2]]
        while len(rows) > len(members) and rows[len(members)][0] < last:
            _, end, splice = rows[len(members)]
            last = max(last, end)
            members.append(splice)
        rows = rows[len(members) :]
        begin, last = starts[first], min(last, len(lines))
        old = "".join(lines[first:last])
        new = _lines(applied(old, (Splice(s.start - begin, s.end - begin, s.new) for s in members)))
        while first < last and new and lines[first] == new[0]:
            first, new = first + 1, new[1:]
        while first < last and new and lines[last - 1] == new[-1]:
            last, new = last - 1, new[:-1]
        if first < last or new:
            yield _Block(first, last, new)


def _hunk(lines: Sequence[str], group: Sequence[_Block], shift: int, context: int, out: list[str]) -> int:
    """Writes one hunk; gives the number of lines that all hunks so far have added."""
    start = max(0, group[0].start - context)
    end = min(len(lines), group[-1].end + context)
    added = sum(len(block.new) - (block.end - block.start) for block in group)
    out.append(f"@@ -{_range(start, end - start)} +{_range(start + shift, end - start + added)} @@\n")
    at = start
    for block in group:
        out += [_marked(" ", line) for line in lines[at : block.start]]
        out += [_marked("-", line) for line in lines[block.start : block.end]]
        out += [_marked("+", line) for line in block.new]
        at = block.end
    out += [_marked(" ", line) for line in lines[at:end]]
    return shift + added


def _range(start: int, count: int) -> str:
    return f"{start + 1}" if count == 1 else f"{start + 1 if count else start},{count}"


def _marked(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
