"""A place in the text of a JSON path, and why a path leads nowhere."""

from __future__ import annotations

import re


class JsonPathError(Exception):
    """The path cannot be evaluated over the document."""


class InvalidPathError(JsonPathError):
    """The text is not a path, or a step of it does not fit the value that it is taken from."""


class PathNotFoundError(InvalidPathError):
    """The path leads nowhere."""


class Cursor:
    """Reads a text. Reading beyond its end is an :class:`InvalidPathError`, and so no path."""

    def __init__(self, text: str, place: int = 0) -> None:
        self.text, self.place = text, place

    @property
    def char(self) -> str:
        return self.at(self.place)

    @property
    def inside(self) -> bool:
        return self.place < len(self.text)

    @property
    def at_tail(self) -> bool:
        """Whether at most one character is left."""
        return self.place + 1 >= len(self.text)

    def at(self, place: int) -> str:
        if not 0 <= place < len(self.text):
            raise InvalidPathError(f"{self.text} ends too early")
        return self.text[place]

    def skip_blanks(self) -> Cursor:
        while self.inside and self.text[self.place] == " ":
            self.place += 1
        return self

    def next_visible(self, place: int | None = None) -> int:
        """Where the next character that is not a blank is, behind ``place``; the end if there is none."""
        position = (self.place if place is None else place) + 1
        while position < len(self.text) and self.text[position] == " ":
            position += 1
        return position

    def visible_char(self, place: int | None = None) -> str:
        """The next character that is not a blank; a blank at the end."""
        position = self.next_visible(place)
        return self.text[position] if position < len(self.text) else " "

    def previous_visible(self) -> int:
        """Where the character before this place is that is not a blank; -1 for none."""
        return len(self.text[: self.place].rstrip(" ")) - 1

    def take(self, text: str) -> bool:
        """Moves behind ``text``, if that is next."""
        self.skip_blanks()
        if not self.text.startswith(text, self.place):
            return False
        self.place += len(text)
        return True

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise InvalidPathError(f"{text} is missing in {self.text}")

    def find_unescaped(self, char: str) -> int:
        """Where ``char`` is behind this place, without a backslash before it (two are one)."""
        for position in range(self.place + 1, len(self.text)):
            before = self.text[max(0, position - 2) : position]
            if self.text[position] == char and (not before.endswith("\\") or before == "\\\\"):
                return position
        raise InvalidPathError(f"{char} is missing in {self.text}")

    def find_closing(self, start: int, opening: str, closing: str, patterns: bool = False) -> int:
        """Where the bracket at ``start`` is closed, not counting those in texts in single quotes and in patterns; -1
        where it is not."""
        depth, place = 1, start + 1
        while place < len(self.text):
            if self.text[place] == "'":
                place += 1
                while self.at(place) != "'":
                    place += 2 if self.text[place] == "\\" else 1
                place += 1
            if patterns and self.at(place) == "/":
                place = self.text.find("/", place + 1) + 1
                if place == 0:
                    raise InvalidPathError(f"a / is missing in {self.text}")
            depth += (self.at(place) == opening) - (self.text[place] == closing)
            if depth == 0:
                return place
            place += 1
        return -1


_ESCAPED = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.S)
_MEANING = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def unescaped(text: str) -> str:
    """``text`` without the backslashes of Java's escapes."""
    return _ESCAPED.sub(
        lambda m: chr(int(m[1][1:], 16)) if len(m[1]) == 5 else _MEANING.get(m[1], m[1]),
        text,
    )
