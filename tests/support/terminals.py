"""A real terminal for tests: a process on a pseudo-terminal, its keys, and what its screen shows."""

from __future__ import annotations

import contextlib
import copy
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyte

ROOT = Path(__file__).resolve().parents[2]


class _Screen(pyte.HistoryScreen):
    """With a second screen, which programs that fill the screen switch to."""

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        if 1049 in modes and kwargs.get("private"):
            self.below = copy.deepcopy(self.buffer), copy.copy(self.cursor)
            self.erase_in_display(2)
        super().set_mode(*modes, **kwargs)

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        super().reset_mode(*modes, **kwargs)
        if 1049 in modes and kwargs.get("private"):
            self.buffer, self.cursor = self.below
            self.dirty.update(range(self.lines))


class Terminal:
    """A process on a terminal of its own.

    Args:
        command: what runs.
        folder: its working directory.
        environment: variables beside those of this process; None for one that it does not get.
        columns, rows: of the screen.

    Attributes:
        process: that runs.
    """

    def __init__(
        self,
        command: list[str],
        folder: Path,
        environment: Mapping[str, str | None] | None = None,
        columns: int = 120,
        rows: int = 30,
    ) -> None:
        self._screen = _Screen(columns, rows, history=10_000, ratio=0.5)
        self._parser = pyte.ByteStream(self._screen)
        self._lock = threading.Lock()
        self._fed = 0
        self._made: dict[str, tuple[int, str]] = {}
        self._master, terminal = pty.openpty()
        variables = {**os.environ, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT), **(environment or {})}
        self.resize(columns, rows)
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={name: value for name, value in variables.items() if value is not None},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
            preexec_fn=_own_terminal,
        )
        os.close(terminal)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:  # the process has ended
                return
            if not data:
                return
            with self._lock:
                self._parser.feed(data)
                self._fed += 1
                cursor = self._screen.cursor
                answers = b"\x1b[%d;%dR" % (cursor.y + 1, cursor.x + 1)
            for _ in range(data.count(b"\x1b[6n")):
                os.write(self._master, answers)

    def resize(self, columns: int, rows: int) -> None:
        """Another size; the process is told."""
        with self._lock:
            self._screen.resize(rows, columns)
            self._fed += 1
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    @property
    def text(self) -> str:
        """What the screen shows, without blanks at the ends."""
        return self._kept("text", lambda: self._screen.display)

    @property
    def whole(self) -> str:
        """What the screen shows, and what has left it at the top."""
        screen = self._screen
        return self._kept(
            "whole",
            lambda: [
                *("".join(line[x].data for x in range(screen.columns)) for line in screen.history.top),
                *screen.display,
            ],
        )

    def _kept(self, name: str, make: Callable[[], list[str]]) -> str:
        """A text that is made anew only after something was written."""
        with self._lock:
            made, text = self._made.get(name, (-1, ""))
            if made != self._fed:
                text = "\n".join(line.rstrip() for line in make()).rstrip("\n")
                self._made[name] = self._fed, text
            return text

    @property
    def colours(self) -> set[str]:
        """The colours of the letters on the screen."""
        with self._lock:
            cells = [self._screen.buffer[y][x] for y in range(self._screen.lines) for x in range(self._screen.columns)]
            return {cell.fg for cell in cells if cell.data.strip()}

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def until(self, condition: Callable[[str], bool] | str, seconds: float = 90.0) -> str:
        """Waits until the screen shows a text, or fulfils a condition; what it shows then."""
        deadline = time.monotonic() + seconds
        while True:
            text = self.text
            if condition in text if isinstance(condition, str) else condition(text):
                return text
            assert self.process.poll() is None, f"it has ended\n{text}"
            assert time.monotonic() < deadline, f"not there: {condition}\n{text}"
            time.sleep(0.05)

    def ended(self, seconds: float = 60.0) -> int:
        """Waits for the end of the process; its exit code."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"it has not ended\n{self.text}") from None
        self._reader.join(10)
        return code

    def close(self) -> None:
        """Ends the process, if it still runs, and all that it has started."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(30)
        with contextlib.suppress(OSError):
            os.close(self._master)


def _own_terminal() -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def stateplan(*arguments: str) -> list[str]:
    """The command line of this checkout."""
    return [sys.executable, "-m", "stateplan", *arguments]
