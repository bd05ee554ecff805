"""Every exchange of Flink's own client with Flink's own gateway, as it was recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tests.conftest import shared_folder

_SHARED = shared_folder()
TRANSCRIPT = None if _SHARED is None else _SHARED.parent / "gateway" / "TRANSCRIPT.md"
"""The recording; None where there is no reference material."""

UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_CUT = re.compile(r" … \((\d+) characters\)$")


@dataclass
class Exchange:
    """A request and its answer.

    Attributes:
        section: A to D.
        title: the heading above it.
        answer: the text, as far as it was kept.
        length: of all of it, where it was cut.
    """

    section: str
    title: str
    method: str
    path: str
    body: str | None
    status: int
    answer: str
    length: int | None

    @property
    def is_fetch(self) -> bool:
        return "/result/" in self.path

    @property
    def statement(self) -> str:
        return str(json.loads(self.body).get("statement", "")) if self.body and "/statements" in self.path else ""


def exchanges() -> list[Exchange]:
    """All that is recorded, in its order."""
    assert TRANSCRIPT is not None
    section, title, found = "", "", []
    for part in re.split(r"^(## .*|### .*)$", TRANSCRIPT.read_text("utf-8"), flags=re.M):
        if part.startswith("## "):
            section, title = part[3], part
        elif part.startswith("### "):
            title = part[4:]
        else:
            found += list(_in_part(section, title, part))
    return found


def _in_part(section: str, title: str, text: str) -> Iterator[Exchange]:
    for block in re.findall(r"^```\n(> .*?)^```", text, flags=re.M | re.S):
        lines = block.rstrip("\n").split("\n")
        method, path = lines[0][2:].split(" ", 1)
        body = None if lines[1] == "> (no body)" else lines[1][2:]
        if body is not None and _CUT.search(body):
            properties = {"jobmanager.rpc.address": "127.0.0.1", "parallelism.default": "1"}
            body = json.dumps({"sessionName": "default", "properties": properties})
        answer = re.sub(r'   <- ".*', "", "\n".join(lines[3:])[2:])
        cut = _CUT.search(answer)
        length = int(cut[1]) if cut else None
        yield Exchange(section, title, method, path, body, int(lines[2][2:]), _CUT.sub("", answer), length)
