"""Damage to a plan as text and as bytes; see :mod:`tests.plans.damage`."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from random import Random

from tests.plans import damage_values as bad

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?[0-9.eE+-]+|true|false|null|[{}\[\]:,]|\s+')


def _token(text: str, rng: Random) -> tuple[str, str] | None:
    tokens = _TOKEN.findall(text) or [text]
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    what = rng.choice(("delete", "replace", "insert", "duplicate", "swap", "part"))
    new = rng.choice(bad.TOKENS)
    if what == "delete":
        del tokens[at]
    elif what == "replace":
        tokens[at] = new
    elif what == "insert":
        tokens.insert(at, new)
    elif what == "duplicate":
        tokens[at:at] = tokens[at : at + rng.randrange(1, 13)]
    elif what == "swap":
        tokens[at], tokens[other] = tokens[other], tokens[at]
    else:
        tokens[at] = tokens[at][: rng.randrange(len(tokens[at]) + 1)]
    return "".join(tokens), f"{what} token {at}"


def _double_key(text: str, rng: Random) -> tuple[str, str] | None:
    members = list(re.finditer(r'"(\w+)"\s*:\s*("[^"\\]*"|\d+|true|false|null)', text))
    if not members:
        return None
    member = rng.choice(members)
    key = rng.choice((f'"{member[1]}"', f'"\\u{ord(member[1][0]):04x}{member[1][1:]}"'))
    return f"{text[: member.end()]},{key}:{member[2]}{text[member.end() :]}", f"second key {member[1]}"


def _nested(text: str, rng: Random) -> tuple[str, str] | None:
    opening, closing = rng.choice(bad.DEEP[:3])
    depth = rng.choice((501, bad.HUGE))
    whole = opening * depth + text + (closing * depth if rng.random() < 0.5 else "")
    return whole, f"inside of {depth} levels"


def _ends(text: str, rng: Random) -> tuple[str, str] | None:
    more = rng.choice((text, "{}", "x", ",", "]", "\x00", "null", "// end"))
    return (text + more, "something after the end") if rng.random() < 0.6 else (more + text, "something before")


def _blanks(text: str, rng: Random) -> tuple[str, str] | None:
    new = rng.choice(("\r\n", "\r", " ", "\t", "\v", "\u2028", "\n" * 50))
    return text.replace("\n", new), f"line ends are {new[:2]!r}"


TEXTS: tuple[Callable[[str, Random], tuple[str, str] | None], ...] = (
    _token, _token, _token, _token, _double_key, _nested, _ends, _blanks,
)  # fmt: skip


def _cut(data: bytes, rng: Random) -> tuple[bytes, str]:
    at = rng.randrange(len(data) + 1)
    return data[:at], f"cut at byte {at}"


def _hole(data: bytes, rng: Random) -> tuple[bytes, str]:
    at = rng.randrange(len(data) + 1)
    size = rng.choice((1, 4, 100, 4096))
    return data[:at] + data[at + size :], f"{size} bytes missing at {at}"


def _byte(data: bytes, rng: Random) -> tuple[bytes, str]:
    at = rng.randrange(len(data) + 1)
    new = rng.choice(
        (b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xe9", b"\x1b[31m")
    )
    return data[:at] + new + data[at:], f"{new!r} at byte {at}"


def _flip(data: bytes, rng: Random) -> tuple[bytes, str]:
    if not data:
        return data, "nothing to flip"
    at = rng.randrange(len(data))
    return data[:at] + bytes([data[at] ^ (1 << rng.randrange(8))]) + data[at + 1 :], f"a bit of byte {at}"


def _encoded(data: bytes, rng: Random) -> tuple[bytes, str]:
    text = data.decode("utf-8", "replace")
    name = rng.choice(("utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "latin-1", "cp1252", "utf-7"))
    if name in ("latin-1", "cp1252") and text.isascii():
        text = text.replace("a", "é", 1)
    return text.encode(name, "replace"), f"encoded as {name}"


def _marked(data: bytes, rng: Random) -> tuple[bytes, str]:
    mark = b"\xef\xbb\xbf" * rng.choice((1, 1, 2))
    return mark + data, "byte order mark"


def _other(data: bytes, rng: Random) -> tuple[bytes, str]:
    return rng.choice(
        (
            (b"", "empty"),
            (b" \n", "blanks"),
            (gzip.compress(data[:1000], mtime=0), "compressed"),
            (bytes(rng.randrange(256) for _ in range(40)), "any bytes"),
            (b"\x00" * 1000, "zeros"),
            (b"null", "null"),
            (b"[]", "a list"),
            (b'"x"', "a text"),
            (b"{}", "an object"),
        )
    )


BYTES: tuple[Callable[[bytes, Random], tuple[bytes, str]], ...] = (
    _cut, _cut, _hole, _byte, _byte, _flip, _flip, _encoded, _marked, _other,
)  # fmt: skip
