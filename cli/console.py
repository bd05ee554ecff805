"""Everything the user sees goes through a :class:`Console`: results to standard output, the rest to standard error.

:class:`TerminalConsole` adds a live progress line,
:class:`JsonConsole` writes one JSON object per result.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from stateplan.common.disk import output_error
from stateplan.common.errors import StateplanError
from stateplan.common.readable import bytes_text, render, roughly

if TYPE_CHECKING:
    from stateplan.runtime.job import Progress


_RED, _YELLOW, _PLAIN = "\033[1;31m", "\033[1;33m", "\033[0m"


def progress_text(progress: Progress) -> str:
    """The figures of a job on one line."""
    parts = [f"batch {progress.batch} ({progress.batch_seconds:.1f} s)" if progress.batch >= 0 else "no batch yet"]
    forecast = progress.forecast
    if forecast is not None:
        total = "" if forecast.bytes is None else f" of {bytes_text(forecast.bytes)}"
        left = "" if forecast.seconds is None else f", about {roughly(forecast.seconds)} left"
        parts.append(f"{int(100 * forecast.share)}%{total}{left}")
    for rows, direction in ((progress.rows_in, "in"), (progress.rows_out, "out")):
        parts.append(f"{rows:,} {'row' if rows == 1 else 'rows'} {direction}")
    return " | ".join([*parts, f"{progress.seconds:.1f} s"])


def open_standard_files() -> None:
    """Opens ``/dev/null`` in place of standard files that whoever started this process has closed: another file would
    take their numbers, and what Spark's process prints would be written into it. Closed input is empty; a closed output
    stays None in ``sys``, and a result for it an error."""
    for number, mode in enumerate((os.O_RDONLY, os.O_WRONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, mode), True)
    if sys.stdin is None:
        sys.stdin = os.fdopen(0, closefd=False)


def abandon(stream: TextIO | None) -> None:
    """Lets what a broken stream still holds go nowhere: the interpreter would complain about it at exit."""
    with contextlib.suppress(OSError, ValueError):
        if stream is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class Console:
    """Text for pipes and files. A running job gives a line every ``every`` seconds.

    Args:
        quiet: omit notes and progress; results, warnings and errors stay.
        out: results; standard output of the moment by default.
        err: everything else; standard error of the moment by default.
        every: seconds between lines of progress.
    """

    def __init__(
        self, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None, every: float = 5.0
    ) -> None:
        self.quiet = quiet
        self._out = out
        self._err = err
        self._every = every
        self._last = 0.0

    @property
    def out(self) -> TextIO:
        return self._out or sys.stdout

    @property
    def err(self) -> TextIO:
        return self._err or sys.stderr

    def _aside(self, text: str) -> None:
        try:
            self.err.write(f"{text}\n")
            self.err.flush()
        except (OSError, AttributeError):  # full or closed: there is nobody to tell
            abandon(sys.stderr)

    def _result(self, text: str) -> None:
        self.raw(text.encode(getattr(self.out, "encoding", None) or "utf-8", "backslashreplace"))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        """A result of rows."""
        self.show(render(columns, rows), {"columns": list(columns), "rows": [list(r) for r in rows]})

    def raw(self, data: bytes) -> None:
        """A result that is not to be changed, such as a file; with :meth:`show`, what may raise RunError RUN090."""
        if self._out is not None:
            self._out.write(data.decode())
            return
        if sys.stdout is None:
            raise output_error("standard output", None)
        try:
            sys.stdout.flush()
            buffer = getattr(sys.stdout, "buffer", None)
            if buffer is None:
                sys.stdout.write(data.decode())
            else:
                buffer.write(data)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as failure:
            abandon(sys.stdout)
            raise output_error("standard output", failure) from failure

    def show(self, text: str, data: Any) -> None:
        """A result: ``text`` for people, ``data`` (JSON-ready) for programs."""
        self._result(text if text.endswith("\n") or not text else f"{text}\n")

    def note(self, text: str) -> None:
        if not self.quiet:
            self._aside(text)

    def warning(self, text: str) -> None:
        self._aside(f"{self._label('warning:', _YELLOW)} {text}")

    def error(self, error: StateplanError) -> None:
        self._aside(f"{self._label('error:', _RED)} {error}")

    def _label(self, text: str, colour: str) -> str:
        """The first word of a message, in a colour where there are any."""
        return text

    def status(self, text: str) -> None:
        """What is being waited for; leaves nothing behind."""
        self._last = time.monotonic()

    def progress(self, progress: Progress) -> None:
        """The figures of a running job; called several times a second."""
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            self._figures("progress", progress)

    def finished(self, progress: Progress, outcome: str = "finished") -> None:
        """The last figures of a job."""
        self._figures(outcome, progress)

    def _figures(self, name: str, progress: Progress) -> None:
        self.note(("" if name == "progress" else f"{name}: ") + progress_text(progress))

    def close(self) -> None:
        """Leaves the terminal as it was."""
        with contextlib.suppress(OSError, AttributeError):
            self.err.flush()


class _Above(io.TextIOBase):
    """Standard output that takes the live line away before it is written to."""

    def __init__(self, console: TerminalConsole, stream: TextIO) -> None:
        self._console = console
        self._stream = stream

    def write(self, text: str) -> int:
        self._console.erase()
        return self._stream.write(text)

    def flush(self) -> None:
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class TerminalConsole(Console):
    """Text for a person at a terminal, with one line that is rewritten while a job runs."""

    def __init__(self, quiet: bool = False, out: TextIO | None = None, err: TextIO | None = None) -> None:
        super().__init__(quiet, out, err, every=0.2)
        self._lock = threading.Lock()
        self._live = ""
        self._stdout: TextIO | None = None
        self._colours = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def _label(self, text: str, colour: str) -> str:
        return f"{colour}{text}{_PLAIN}" if self._colours else text

    def erase(self) -> None:
        """Takes the live line away."""
        with self._lock:
            if self._live:
                self._live = ""
                self.err.write("\r\033[K")
                self.err.flush()

    def _draw(self, text: str) -> None:
        if self.quiet:
            return
        if self._stdout is None:
            self._stdout = sys.stdout
            sys.stdout = _Above(self, sys.stdout)
        with self._lock:
            self._live = text[: shutil.get_terminal_size().columns - 1]
            self.err.write(f"\r\033[K{self._live}")
            self.err.flush()

    def close(self) -> None:
        self.erase()
        if self._stdout is not None:
            sys.stdout = self._stdout
            self._stdout = None

    def raw(self, data: bytes) -> None:
        self.erase()
        super().raw(data)

    def _aside(self, text: str) -> None:
        self.erase()
        super()._aside(text)

    def error(self, error: StateplanError) -> None:
        self.close()
        super().error(error)

    def status(self, text: str) -> None:
        self._draw(f"{text} ...")

    def finished(self, progress: Progress, outcome: str = "finished") -> None:
        self.close()
        super().finished(progress, outcome)

    def _figures(self, name: str, progress: Progress) -> None:
        if name == "progress":
            self._draw(progress_text(progress))
        else:
            super()._figures(name, progress)


class JsonConsole(Console):
    """One JSON object per line: results on standard output, an error as ``{"error": ...}`` on standard error."""

    def show(self, text: str, data: Any) -> None:
        self._result(json.dumps(data, ensure_ascii=False, default=str) + "\n")

    def error(self, error: StateplanError) -> None:
        self._aside(json.dumps({"error": error.to_dict()}, ensure_ascii=False))

    def warning(self, text: str) -> None:
        self._aside(json.dumps({"warning": text}, ensure_ascii=False))

    def note(self, text: str) -> None:
        if not self.quiet:
            self._aside(json.dumps({"note": text}, ensure_ascii=False))

    def _figures(self, name: str, progress: Progress) -> None:
        figures = {
            "batch": progress.batch,
            "rowsIn": progress.rows_in,
            "rowsOut": progress.rows_out,
            "seconds": round(progress.seconds, 3),
            "sinks": progress.sinks,
        }
        if progress.forecast is not None:
            seconds = progress.forecast.seconds
            left = None if seconds is None else round(seconds, 1)
            figures |= {"share": round(progress.forecast.share, 4), "secondsLeft": left}
        if not self.quiet:
            self._aside(json.dumps({name: figures}))


def make_console(output: str, quiet: bool) -> Console:
    """The console for ``--format text`` or ``json`` and for where the output goes."""
    if output == "json":
        return JsonConsole(quiet)
    return TerminalConsole(quiet) if sys.stderr and sys.stderr.isatty() else Console(quiet)
