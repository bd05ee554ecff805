"""Plays a page of the documentation: types its blocks, word for word, and compares what comes with what it shows.

====================== ================================================================================================
block                  what is done with it
====================== ================================================================================================
``sh``                 Typed in a shell. ``stateplan sql`` opens the SQL client, and ``stateplan gateway`` a gateway.
                       ``source FILE`` gives its variables to all that comes later.
``sql``                Pasted at the prompt of the SQL client, with Enter.
``diff``               Changed in an editor. The comment ``<!-- file: NAME -->`` before it names the file.
``text``               What the block before it shows.
====================== ================================================================================================

====================== ================================================================================================
comment                effect
====================== ================================================================================================
``window``             The next ``sh`` runs on, in a window of its own.
``again``              The next ``sh`` is typed again until it shows what the page shows.
``exit: CODE``         The next ``sh`` ends with this exit code; 0 without it.
``client``             The next ``text`` appears in the SQL client by itself.
``gateway``            The next ``text`` is all that the gateway has printed.
``screen``             The next ``text`` is the whole screen of the SQL client.
``rates``              The numbers of the next ``text`` differ from run to run.
``keys: KEYS``         Types keys in the SQL client, written as in a Python string.
``clear``              Clears the screen of the SQL client.
``size: 90x16``        Gives the terminal of the SQL client another size.
``check: NAME``        Is for the test of the page.
====================== ================================================================================================
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.support.terminals import Terminal

PROMPT = "Stateplan SQL>"
FOLDER = "/data/shop"
"""What a page calls the folder that it is played in."""

_URL = "http://127.0.0.1:8083"
_SETTLED = 8.0
"""After so many seconds, nothing more is expected to be shown."""

_PART = re.compile(
    r"^<!-- (?P<comment>[a-z]+)(?:: (?P<value>[^\n]*?))? -->$"
    r"|^```(?P<kind>sh|sql|diff|text)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
_ID = re.compile(r"\b[0-9a-f]{32}\b|\bsavepoint-[0-9a-f]{6}-[0-9a-f]{12}\b")
_STEADY = (
    (_ID, "ID"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]"), ""),
    (re.compile(r"\b\d\d:\d\d:\d\d([.,]\d+)?"), "TIME"),
    (re.compile(r"\b\d[\d.]* (ms|s|seconds|min)\b"), "DURATION"),
    (re.compile(r"\b\d[\d.]* (B|KiB)\b"), "SIZE"),
    (re.compile(r"\b\d+%"), "SHARE"),
    (re.compile(r"process \d+ on host [\w.-]+"), "PROCESS"),
    (re.compile(r"(localhost|127\.0\.0\.1):\d+"), r"\1:PORT"),
    (re.compile(r"-{2,}"), "--"),
    (re.compile(r"[ \t]+"), " "),
)


_PROGRESS = re.compile(r"(no batch yet|batch \d+ \([\d.]+ s\)) \| ")
"""Begins the figures of a running job. A terminal takes them away; a pipe gets a line every few seconds."""

_NUMBER = re.compile(r"\b\d[\d.,]*\b")


def steady(text: str) -> str:
    """A text without what differs from run to run: ids, times, durations, sizes, and the width of columns."""
    for pattern, instead in _STEADY:
        text = pattern.sub(instead, text)
    return "\n".join(line.strip() for line in text.splitlines() if line.strip())


@dataclass(frozen=True)
class Part:
    """A block or a comment of a page.

    Attributes:
        kind: of the block; ``comment`` for a comment.
        text: of the block, or the word of the comment.
        value: of the comment.
        start, end: where the text of the block is on the page.
    """

    kind: str
    text: str
    value: str
    start: int
    end: int


def parts(page: str) -> list[Part]:
    """What is to be done, in its order."""
    return [
        Part("comment", m["comment"], m["value"] or "", 0, 0)
        if m["comment"]
        else Part(m["kind"], m["text"], "", m.start("text"), m.end("text"))
        for m in _PART.finditer(page)
    ]


class Walkthrough:
    """A page that is played.

    Args:
        page: its text.
        folder: an empty one, to play it in.
        bin: a folder with the command ``stateplan``.
        environment: more variables; None for one that is not to be there.
        columns, rows: of the terminal of the SQL client.
        correct: whether to go on where something else is shown.
        patience: seconds to wait for what the page shows, since something was shown.

    Attributes:
        shown: the blocks ``text`` in place of which something else was shown, with that.
        url: of the gateway that the page has started; empty before.
    """

    def __init__(
        self,
        page: str,
        folder: Path,
        bin: Path,  # noqa: A002 - as the folder is called
        environment: Mapping[str, str | None] | None = None,
        columns: int = 150,
        rows: int = 30,
        correct: bool = False,
        patience: float = 120.0,
    ) -> None:
        self._page = page
        folder.mkdir(exist_ok=True)
        self._folder = folder
        self._columns, self._rows = columns, rows
        self._correct = correct
        self._patience = patience
        self._environment: dict[str, str | None] = {
            "PATH": f"{bin}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "XDG_CONFIG_DIRS": str(folder),
            "XDG_CONFIG_HOME": None,
            "XDG_STATE_HOME": None,
            "STATEPLAN_HISTORY": None,
            "NO_COLOR": None,
            "TZ": "UTC",
            **(environment or {}),
        }
        self._others: list[subprocess.Popen[bytes]] = []
        self._own_window = self._repeats = False
        self._exit_code = 0
        self._again: str | None = None
        self._client: Terminal | None = None
        self._server: subprocess.Popen[bytes] | None = None
        self._log = folder.with_name(f"{folder.name}.gateway.log")
        self._prompts = self._seen = 0
        self._rates = False
        self._ids: dict[str, str] = {}
        self._answer: Callable[[], str] = str
        self.shown: list[tuple[Part, str]] = []
        self.url = ""

    def play(self, each: Mapping[str, Callable[[], None]] | None = None) -> None:
        """Plays the whole page.

        Args:
            each: called at the comments ``<!-- check: NAME -->``.

        Raises:
            AssertionError: something else is shown than the page shows.
        """
        file = ""
        for part in parts(self._page):
            if part.kind == "comment":
                if part.text == "file":
                    file = part.value
                elif part.text == "check":
                    (each or {}).get(part.value, lambda: None)()
                else:
                    self._comment(part)
            elif part.kind == "text":
                self._compare(part)
            elif part.kind == "sh":
                self._shell(part.text)
            elif part.kind == "sql":
                self._statements(part.text)
            else:
                self._edit(file, part.text)

    def close(self) -> None:
        """Ends all that still runs."""
        if self._client is not None:
            self._client.close()
        for other in (*self._others, *([self._server] if self._server is not None else [])):
            other.terminate()
            other.wait(self._patience)

    def corrected(self) -> str:
        """The page with what was shown."""
        page = self._page
        for part, text in reversed(self.shown):
            for written, here in self._ids.items():
                text = text.replace(here, written)
            page = page[: part.start] + text + page[part.end :]
        return page

    # doing

    def _comment(self, part: Part) -> None:
        if part.text == "keys":
            self._now().type(ast.literal_eval(f'"""{part.value}"""'))
        elif part.text == "client":
            self._answer = self._said
        elif part.text == "gateway":
            self._answer = lambda: self._log.read_text(encoding="utf-8")
        elif part.text == "clear":
            self._prompted()
            self._now().type("CLEAR;\r")
            self._until(lambda: self._now().text == PROMPT)
        elif part.text == "size":
            columns, rows = part.value.split("x")
            self._now().resize(int(columns), int(rows))
        elif part.text == "rates":
            self._rates = True
        elif part.text == "window":
            self._own_window = True
        elif part.text == "again":
            self._repeats = True
        elif part.text == "exit":
            self._exit_code = int(part.value)
        elif part.text == "screen":
            self._answer = lambda: self._now().text

    def _now(self) -> Terminal:
        assert self._client is not None, "the page has not opened the SQL client"
        return self._client

    def _shell(self, text: str) -> None:
        text = self._with_ids(text)
        words = text.split()
        self._again, self._repeats = (text if self._repeats else None), False
        if self._own_window:
            self._own_window = False
            self._open_window(text)
        elif words[0] == "source":
            self._take_variables(words[1])
        elif words[:2] == ["stateplan", "gateway"]:
            self._start_gateway(text)
        elif words[:2] == ["stateplan", "sql"] and set(words[2::2]) <= {"--endpoint"}:
            if self._client is not None:
                assert self._client.ended(self._patience) == 0
            command = ["bash", "-c", f"exec {text}"]
            self._client = Terminal(command, self._folder, self._environment, self._columns, self._rows)
            self._seen = self._prompts = 0
            self._prompted()
            self._answer = self._said
        else:
            done = subprocess.run(
                ["bash", "-ec", f"trap pwd EXIT\n{text}"],
                cwd=self._folder,
                env=self._variables(),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            expected, self._exit_code = self._exit_code, 0
            assert done.returncode == expected, f"{text}\n{done.stdout}"
            *said, folder = done.stdout.splitlines()
            self._folder = Path(folder)
            answer = "".join(f"{line}\n" for line in said if not _PROGRESS.match(line))
            self._answer = lambda: answer

    def _variables(self) -> dict[str, str]:
        return {name: value for name, value in {**os.environ, **self._environment}.items() if value is not None}

    def _open_window(self, text: str) -> None:
        """Starts what runs on; the next text is what it prints."""
        log = self._folder.with_name(f"{self._folder.name}.{len(self._others)}.log")
        with log.open("wb") as out:
            environment = {**self._variables(), "PYTHONUNBUFFERED": "1"}
            command = ["bash", "-c", f"exec {text.strip()}"]
            process = subprocess.Popen(command, cwd=self._folder, env=environment, stdout=out, stderr=out)
        self._others.append(process)
        self._answer = lambda: log.read_text(encoding="utf-8")

    def _take_variables(self, file: str) -> None:
        command = ["bash", "-ec", f"source {file}; env -0"]
        said = subprocess.run(command, cwd=self._folder, env=self._variables(), capture_output=True, text=True)
        assert said.returncode == 0, said.stderr
        pairs = (entry.partition("=") for entry in said.stdout.split("\0") if entry)
        self._environment |= {name: text for name, _, text in pairs if not name.startswith("BASH")}

    def _start_gateway(self, text: str) -> None:
        """On a free port."""
        with self._log.open("wb") as log:
            self._server = subprocess.Popen(
                ["bash", "-c", f"exec {text.strip()} --port 0"],
                cwd=self._folder,
                env={**self._variables(), "PYTHONUNBUFFERED": "1"},
                stdout=log,
                stderr=log,
            )
        self._answer = lambda: self._log.read_text(encoding="utf-8")
        self._until(lambda: "SQL gateway at" in self._answer())
        found = re.search(r"SQL gateway at (\S+)", self._answer())
        assert found is not None
        self.url = found[1]

    def _with_ids(self, text: str) -> str:
        """With the ids of this run, and the port of its gateway."""
        for page, here in self._ids.items():
            text = text.replace(page, here)
        return text if self._server is None else text.replace("http://localhost:8083", self.url)

    def _statements(self, text: str) -> None:
        self._prompted()
        client = self._now()
        before = self._prompts = client.whole.count(PROMPT)
        self._seen = 0
        client.type(f"\x1b[200~{self._with_ids(text).rstrip()}\x1b[201~\r")
        self._answer = self._said
        self._until(lambda: client.whole.count(PROMPT) > before or "SQL Query Result" in client.text or self._gone())

    def _gone(self) -> bool:
        return self._now().process.poll() is not None or self._now().text.endswith("[y/N]")

    def _edit(self, name: str, change: str) -> None:
        """Makes a change of lines that are there once."""
        file = self._folder / name
        text = file.read_text(encoding="utf-8")
        before = "".join(line[1:] for line in change.splitlines(True) if line[0] in " -")
        after = "".join(line[1:] for line in change.splitlines(True) if line[0] in " +")
        assert text.count(before) == 1, f"{name} has {text.count(before)} times\n{before}"
        file.write_text(text.replace(before, after), encoding="utf-8")

    # comparing

    def _prompted(self) -> None:
        client = self._now()
        asks = re.compile(rf"{PROMPT}\s*(\n \d+ jobs? running.*)?$")
        self._until(lambda: asks.search(client.text) is not None)

    def _until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + self._patience
        while not condition():
            assert time.monotonic() < deadline, self._answer() if self._client is None else self._client.text
            time.sleep(0.05)

    def _said(self) -> str:
        """What the client has shown since the last statement was typed or what it said was compared."""
        said = self._whole_answer()
        if self._seen:
            return said[self._seen :]
        typed = re.match(r".*\n(?: {13}> .*\n| {13}>\n)*", said) if self._prompts else None
        return said[typed.end() :] if typed else said

    def _whole_answer(self) -> str:
        """The last statement, and all that has come since then."""
        after = self._now().whole.split(PROMPT)[self._prompts :]
        return PROMPT.join(after if self._gone() else after[:-1])

    def _compare(self, part: Part) -> None:
        """Waits until what the page shows is shown. What a job prints may come in any order."""
        expected = self._lines(part.text)
        last, since = "", time.monotonic()
        while True:
            text = self._answer().replace(str(self._folder), FOLDER)
            if self.url:
                text = text.replace(self.url, _URL)
            if text != last:
                last, since = text, time.monotonic()
            if expected and self._lines(text) == expected:
                break
            waited = time.monotonic() - since
            if self._again is not None and waited <= self._patience:
                self._shell_again(self._again)
                continue
            if self._correct and text.strip() and not expected and waited > _SETTLED:
                break
            if waited > self._patience or not self._may_come():
                remedy = "if the output is right: python -m scripts.record_terminal, with the name of the page"
                assert self._correct, f"the page shows\n{part.text}\nbut there is\n{text}\n{remedy}"
                break
            time.sleep(0.05)
        if self._lines(text) != expected:
            self.shown.append((part, "".join(f"{line.rstrip()}\n" for line in text.strip("\n").splitlines())))
        for page, here in zip(*(_ID.findall(t) for t in (part.text, text)), strict=False):
            self._ids[page] = here
        if self._client is not None and self._answer == self._said:
            self._seen = len(self._whole_answer())
        self._rates = False

    def _shell_again(self, text: str) -> None:
        time.sleep(0.3)
        self._shell(text)
        self._again = text

    def _lines(self, text: str) -> list[str]:
        """The lines that are compared."""
        text = steady(text)
        return sorted((_NUMBER.sub("N", text) if self._rates else text).splitlines())

    def _may_come(self) -> bool:
        """Whether something else may be shown later: by a program that still runs."""
        runs = self._client is not None or self._server is not None or bool(self._others)
        return self._answer == self._said or runs
