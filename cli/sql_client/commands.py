"""Commands of the client itself, which no gateway sees."""

from __future__ import annotations

import re

from stateplan.common.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Command:
    """A command of the client.

    Attributes:
        word: it begins with.
        usage: how it is written.
        effect: what it does.
    """

    word: str
    usage: str
    effect: str


COMMANDS = (
    Command("HELP", "HELP [statement];", "shows this text, or how a statement is written, as in HELP CREATE TABLE;"),
    Command("SOURCE", "SOURCE 'file';", "runs the statements of a file"),
    Command("!", "!command", "runs a command of the system; it ends with the line"),
    Command("CLEAR", "CLEAR;", "clears the screen"),
    Command("QUIT", "QUIT;", "leaves the client; so do EXIT; and Ctrl-D"),
    Command("EXIT", "EXIT;", "leaves the client"),
)

_FORMS = {
    "HELP": re.compile(r"HELP\b\s*(.*)", re.I | re.S),
    "SOURCE": re.compile(r"SOURCE\s+'((?:[^']|'')*)'", re.I),
    "!": re.compile(r"!\s*(.*)", re.S),
    "CLEAR": re.compile(r"(CLEAR)", re.I),
    "QUIT": re.compile(r"(QUIT|EXIT)", re.I),
}


def command_of(statement: str) -> tuple[str, str] | None:
    """The word of the client's command that a statement is, and its argument; None for one that the gateway runs.
    EXIT is QUIT."""
    for word, form in _FORMS.items():
        match = form.fullmatch(statement)
        if match is not None:
            return word, match[1].replace("''", "'") if word == "SOURCE" else match[1].strip()
    return None
