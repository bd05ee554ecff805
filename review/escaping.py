"""Texts from SQL and plans inside Markdown: they are shown as they are, without secrets. They cannot make tables,
links, mentions, references to issues, or HTML."""

from __future__ import annotations

import re

from stateplan.common.redaction import redacted

_SIGNS = {ord(sign): f"&#{ord(sign)};" for sign in "&\\`*_[]<>|#~$"}
_BLANKS = re.compile(r"\s+")
_BREAK = "\u2060"
"""A sign without width: it joins words, and neither GitHub nor GitLab sees a name behind ``@`` then."""
_REFERENCES = re.compile(r"([@#!%~&$])(?=\w)|(?<=GH)(-)(?=\d)", re.I)
_LINKS = re.compile(r"(?i)(?<=[a-z])(:)(?=//)|(?<=www)(\.)")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Signs of control, and those that turn the direction of writing."""


def plain(text: str) -> str:
    """Text of a sentence."""
    text = _clean(text)
    text = _REFERENCES.sub(lambda m: f"{m[0]}{_BREAK}", text)
    text = _LINKS.sub(lambda m: f"{_BREAK}{m[0]}", text)
    return text.translate(_SIGNS)


def code(text: str) -> str:
    """Text in the letters of code. Names after ``@`` are no mentions there."""
    return f"<code>{_clean(text).translate(_SIGNS)}</code>"


def fenced(text: str, language: str = "") -> str:
    """A block of lines, whose fence is longer than any in it."""
    text = _UNSEEN.sub("\ufffd", redacted(text))
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _clean(text: str) -> str:
    return _UNSEEN.sub("\ufffd", _BLANKS.sub(" ", redacted(text)).strip())
