"""Compiling JSON paths.

Source: json-path's ``PathCompiler``.
"""

from __future__ import annotations

import re
from functools import lru_cache

from stateplan.functions.render.jsonpath.cursor import Cursor, InvalidPathError, unescaped
from stateplan.functions.render.jsonpath.filters import FilterReader
from stateplan.functions.render.jsonpath.lenient import lenient_json
from stateplan.functions.render.jsonpath.path import (
    All,
    AnyDepth,
    Filter,
    FunctionStep,
    Indexes,
    JsonParameter,
    Names,
    Path,
    Root,
    Slice,
    Step,
)


@lru_cache(maxsize=512)
def compile_path(text: str) -> Path:
    """The path that ``text`` is; one that begins with neither ``$`` nor ``@`` begins with a name.

    Raises:
        InvalidPathError: it is not a path.
    """
    path_text = (text if text[:1] in ("$", "@") else f"$.{text}").rstrip(" ")
    if path_text.endswith("."):
        raise InvalidPathError(f"{text} ends with a .")
    return _PathReader(path_text).read()


class _PathReader:
    """Reads the text of a path, step by step."""

    def __init__(self, text: str) -> None:
        self.cursor = Cursor(text)
        self.steps: list[Step] = []

    def read(self) -> Path:
        cursor = self.cursor
        while cursor.char in " \t\r\n":
            cursor.place += 1
        if cursor.char not in "$@":
            raise InvalidPathError(f"{cursor.text} begins with neither $ nor @")
        of_root = cursor.char == "$"
        self.steps.append(Root())
        if not cursor.at_tail:
            cursor.place += 1
            if cursor.char not in ".[":
                raise InvalidPathError(f"{cursor.text} has neither . nor [ behind {cursor.text[0]}")
            self._step()
            while not cursor.at_tail:
                self._step()
        steps = self.steps
        if isinstance(steps[-1], FunctionStep) and isinstance(steps[1], AnyDepth):
            call, name = next((i, s.name) for i, s in enumerate(steps) if isinstance(s, FunctionStep))
            return Path([Root(), FunctionStep(name, (Path(steps[:call], True),)), *steps[call + 1 :]], True)
        return Path(steps, of_root)

    def _step(self) -> None:
        cursor = self.cursor
        if cursor.char == "[":
            for read in (self._quoted_names, self._indexes, self._bracketed_all, self._filter):
                if read():
                    return
            raise InvalidPathError(f"nothing that may stand in brackets at {cursor.place} of {cursor.text}")
        if cursor.char == ".":
            if cursor.text.startswith("..", cursor.place):
                self.steps.append(AnyDepth())
                cursor.place += 1
            cursor.place += 1
            if cursor.char == ".":
                raise InvalidPathError(f"too many . in {cursor.text}")
            self._step()
        elif cursor.char == "*":
            cursor.place += 1
            self.steps.append(All())
        else:
            self._name()

    def _name(self) -> None:
        cursor = self.cursor
        if cursor.char == " ":
            raise InvalidPathError(f"a blank in {cursor.text}")
        separator = re.compile(r"[ .\[(]").search(cursor.text, cursor.place)
        end = separator.start() if separator else len(cursor.text)
        if separator and separator[0] == " ":
            raise InvalidPathError(f"a blank in {cursor.text}")
        name = cursor.text[cursor.place : end] if end else cursor.text[cursor.place :]
        if separator and separator[0] == "(":
            self._call(name, end)
        else:
            cursor.place = end
            self.steps.append(Names((name,)))

    def _call(self, name: str, opening: int) -> None:
        cursor = self.cursor
        depth = 1
        for c in cursor.text[opening + 1 :]:
            depth += (c == "(") - (c == ")")
            if depth == 0:
                break
        else:
            raise InvalidPathError(f"( is not closed in {cursor.text}")
        parameters: tuple[Path | JsonParameter, ...] = ()
        if cursor.at(opening + 1) == ")":
            cursor.place = opening + 1
        else:
            cursor.place = opening + 1
            parameters = tuple(self._parameters())
        self.steps.append(FunctionStep(name, parameters))

    def _parameters(self) -> list[Path | JsonParameter]:
        """The parameters up to the closing bracket, behind which the cursor is then."""
        cursor = self.cursor
        out: list[Path | JsonParameter] = []
        depth = {"(": 1, "[": 0, "{": 0}
        closes = {")": "(", "]": "[", "}": "{"}
        in_quotes, before, kind, text = False, "", "", ""
        while cursor.inside and depth["("]:
            c = cursor.char
            cursor.place += 1
            if not kind:
                if c in " \t\r\n":
                    continue
                kind = "json" if c in '{"-' or c.isdigit() else "path" if c in "$@" else ""
            if c == '"':
                in_quotes = not in_quotes or before == "\\"
            elif c in depth:
                depth[c] += 1
            elif c in closes:
                depth[closes[c]] -= 1
                if depth[closes[c]] < 0:
                    raise InvalidPathError(f"{c} closes nothing in {cursor.text}")
            ends = not in_quotes and not depth["["] and not depth["{"]
            if c == ")" and before == "(":
                text += c
            elif c in ",)" and ends and (depth["("] == 0 if c == ")" else depth["("] == 1):
                out += self._parameter(kind, text)
                kind, text = "", ""
            elif kind:
                text += c
            before = c
        if any(depth.values()):
            raise InvalidPathError(f"a bracket is not closed in {cursor.text}")
        return out

    def _parameter(self, kind: str, text: str) -> list[Path | JsonParameter]:
        if kind == "json":
            return [JsonParameter(lenient_json(text))]
        return [_PathReader(text).read()] if kind == "path" else []

    def _quoted_names(self) -> bool:
        cursor = self.cursor
        quote = cursor.visible_char()
        if quote not in ("'", '"'):
            return False
        names: list[str] = []
        place, start, end = cursor.place + 1, 0, 0
        within = escaped = comma = False
        while place < len(cursor.text):
            c = cursor.text[place]
            if escaped:
                escaped = False
            elif c == "\\":
                escaped = True
            elif c == "]" and not within:
                break
            elif c == quote and within:
                if cursor.visible_char(place) not in "],":
                    raise InvalidPathError(f"names without a comma in {cursor.text}")
                end, within = place, False
                names.append(unescaped(cursor.text[start:place]))
            elif c == quote:
                start, within, comma = place + 1, True, False
            elif c == "," and not within:
                if comma:
                    raise InvalidPathError(f"an empty name in {cursor.text}")
                comma = True
            place += 1
        closed = cursor.next_visible(end)
        if within or comma or closed >= len(cursor.text) or cursor.text[closed] != "]":
            raise InvalidPathError(f"a name is not closed in {cursor.text}")
        cursor.place = closed + 1
        self.steps.append(Names(tuple(names)))
        return True

    def _indexes(self) -> bool:
        cursor = self.cursor
        first = cursor.visible_char()
        end = cursor.text.find("]", cursor.place + 1)
        if not (first.isdigit() or first in "-:") or end < 0:
            return False
        text = cursor.text[cursor.place + 1 : end].strip()
        if re.fullmatch(r"[\d,\-: ]*", text) is None:
            return False
        self.steps.append(_slice(text) if ":" in text else Indexes(tuple(map(_integer, re.split(r"\s*,\s*", text)))))
        cursor.place = end + 1
        return True

    def _bracketed_all(self) -> bool:
        cursor = self.cursor
        if cursor.visible_char() != "*":
            return False
        closed = cursor.next_visible(cursor.next_visible())
        if closed >= len(cursor.text) or cursor.text[closed] != "]":
            raise InvalidPathError(f"[* is not closed in {cursor.text}")
        cursor.place = closed + 1
        self.steps.append(All())
        return True

    def _filter(self) -> bool:
        cursor = self.cursor
        mark = cursor.next_visible()
        opening = cursor.next_visible(mark)
        if cursor.visible_char() != "?" or cursor.visible_char(mark) != "(":
            return False
        closed = cursor.find_closing(opening, "(", ")", patterns=True)
        end = cursor.next_visible(closed)
        if closed < 0 or cursor.visible_char(closed) != "]":
            return False
        self.steps.append(Filter(FilterReader(cursor.text[opening : closed + 1], compile_path).read()))
        cursor.place = end + 1
        return True


def _integer(text: str) -> int:
    if re.fullmatch(r"-?\d+", text) is None or not -(2**31) <= int(text) < 2**31:
        raise InvalidPathError(f"{text} is no index")
    return int(text)


def _slice(text: str) -> Slice:
    if re.fullmatch(r"[\d\-:]*", text) is None:
        raise InvalidPathError(f"{text} is no slice")
    start, end = [_integer(part) if part else None for part in [*text.split(":"), ""][:2]]
    if start is None and end is None:
        raise InvalidPathError(f"{text} is no slice")
    return Slice(start, end)
