"""A terminal for tests: what is typed goes in, and what the screen shows comes out."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pyte
from prompt_toolkit.application import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.output.vt100 import Vt100_Output


class _Stream:
    """Standard output of the terminal."""

    encoding = "utf-8"

    def __init__(self, screen: pyte.Screen) -> None:
        self._parser = pyte.Stream(screen)
        self.lock = threading.Lock()

    def write(self, text: str) -> int:
        with self.lock:
            self._parser.feed(text.replace("\n", "\r\n"))
        return len(text)

    def flush(self) -> None: ...

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        raise OSError("it is no file")


class _Output(Vt100_Output):
    """Knows its cursor, which a real terminal has to be asked for."""

    test_screen: pyte.Screen

    def get_rows_below_cursor_position(self) -> int:
        return self.test_screen.lines - self.test_screen.cursor.y


class ScreenTest:
    """A program of prompt_toolkit in this process, with keys and a screen.

    Attributes:
        output, input: for the program.
    """

    def __init__(self, keys: PipeInput, columns: int = 80, rows: int = 24) -> None:
        self.screen = pyte.Screen(columns, rows)
        self.input = keys
        self._stream = _Stream(self.screen)
        self.output: Any = _Output(
            self._stream,  # type: ignore[arg-type]
            lambda: Size(rows=rows, columns=columns),
            term="xterm-256color",
            default_color_depth=ColorDepth.from_env(),
            enable_cpr=False,
        )
        self.output.test_screen = self.screen
        self._failure: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def lines(self) -> list[str]:
        """What the screen shows, without blanks at the ends."""
        with self._stream.lock:
            return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def start(self, program: Callable[[], None]) -> None:
        """Runs a program in a thread, with this terminal as its own."""

        def run() -> None:
            try:
                with create_app_session(self.input, self.output):
                    program()
            except BaseException as failure:
                self._failure = failure

        self._thread = threading.Thread(target=run, daemon=True)
        self._thread.start()

    def type(self, keys: str) -> None:
        self.input.send_text(keys)

    def until(self, condition: Callable[[str], bool] | str, seconds: float = 10.0) -> str:
        """Waits until the screen shows a text, or fulfils a condition; what it shows then."""
        deadline = time.monotonic() + seconds
        while True:
            text = self.text
            if condition in text if isinstance(condition, str) else condition(text):
                return text
            if self._failure is not None:
                raise self._failure
            assert time.monotonic() < deadline, f"not there: {condition}\n{text}"
            time.sleep(0.02)

    def ended(self, seconds: float = 10.0) -> None:
        """Waits for the end of the program."""
        assert self._thread is not None
        self._thread.join(seconds)
        assert not self._thread.is_alive(), self.text
        if self._failure is not None:
            raise self._failure


@contextmanager
def terminal(columns: int = 80, rows: int = 24) -> Iterator[ScreenTest]:
    """A terminal of this size."""
    with create_pipe_input() as keys:
        yield ScreenTest(keys, columns, rows)
