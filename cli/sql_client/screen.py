"""The result of a query on the whole screen: the modes ``table`` and ``changelog`` of Flink's SQL client, with its
keys."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from prompt_toolkit.application import Application
from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.layout import FormattedTextControl, Layout, Window
from prompt_toolkit.output import Output
from prompt_toolkit.styles import Style

from stateplan.cli.sql_client.rows import CurrentRows, LastChanges, Row
from stateplan.common.readable import NULL, cell, display_width, fitted
from stateplan.gateway.protocol import ResultColumn, ResultPage
from stateplan.session.tableau import column_width

INTERVALS: tuple[tuple[str, float | None], ...] = (
    ("Fastest", 0.1),
    ("100 ms", 0.1),
    ("500 ms", 0.5),
    ("1 s", 1.0),
    ("5 s", 5.0),
    ("10 s", 10.0),
    ("1 min", 60.0),
    ("-", None),
)
"""Name and seconds of each interval between two refreshes; the last one refreshes only when asked. As in Flink."""

STYLE = Style.from_dict({"status": "reverse", "head": "underline", "types": "ansibrightblack", "changed": "bold"})

_FIRST_TYPES_AT = 14
"""Below this number of lines, the types of the columns are not shown."""
_TICK = 0.05


class ResultScreen:
    """A screen that shows a result while it comes.

    Args:
        columns: the columns of the result.
        rows: take the changes in and give them back: :class:`CurrentRows` for the table, :class:`LastChanges` for the
            changelog.
        max_width: the maximum width of a column whose type does not say how wide it is.
        output, input: of the terminal; those of the process by default.

    Attributes:
        finished: whether the query has ended by itself.
        error: what it failed of.
    """

    def __init__(
        self,
        columns: Sequence[ResultColumn],
        rows: CurrentRows | LastChanges,
        max_width: int,
        output: Output | None = None,
        input: Input | None = None,  # noqa: A002 - prompt_toolkit's name
    ) -> None:
        self._rows = rows
        self._changelog = isinstance(rows, LastChanges)
        ops = ["op"] if self._changelog else []
        self._names = [*ops, *(cell(c.name) for c in columns)]
        self._types = [*("" for _ in ops), *(c.type.summary() for c in columns)]
        widths = [*(2 for _ in ops), *(column_width(c.type, max_width) for c in columns)]
        self._widths = [max(w, display_width(name)) for w, name in zip(widths, self._names, strict=True)]
        self._interval = 0 if self._changelog else 3
        self._page = 0  # the last one
        self._pages = 1
        self._start = -1
        self._page_rows: list[Row] = []
        self._before: list[Row] | None = None
        self._selected_row: int | None = None
        self._left = 0
        self._updated = ""
        self._entry: str | None = None
        self._detail: Row | None = None
        self._opened_from = 0
        self._stop = threading.Event()
        self._at_end = False
        self.finished = False
        self.error: Exception | None = None
        self._app: Application[None] = Application(
            Layout(Window(FormattedTextControl(self._text, show_cursor=False), wrap_lines=False)),
            key_bindings=self._keys(),
            style=STYLE,
            full_screen=True,
            output=output,
            input=input,
        )
        self._app.ttimeoutlen = 0.1

    # running

    def run(self, pages: Iterable[ResultPage]) -> None:
        """Shows the result until the user leaves. ``pages`` are read in another thread; when the user leaves before
        their end, the rest is not read."""
        reader = threading.Thread(target=self._read, args=(pages,), name="result", daemon=True)
        reader.start()

        def begin() -> None:
            self._app.create_background_task(self._refresh_again_and_again())

        try:
            self._app.run(pre_run=begin)
        finally:
            self._stop.set()
            reader.join()

    def _read(self, pages: Iterable[ResultPage]) -> None:
        try:
            for page in pages:
                self._rows.apply(page.rows)
                if self._stop.is_set():
                    return
            self.finished = True
        except Exception as error:  # whoever runs the screen has to deal with it
            self.error = error

    def _leave(self) -> None:
        if self._app.is_running and not self._app.is_done:
            self._app.exit()

    async def _refresh_again_and_again(self) -> None:
        is_over = False
        while not is_over:
            is_over = self.finished
            self.refresh()
            self._app.invalidate()
            wait_time = 0.0
            while not is_over and not self.finished and not self._is_due(wait_time):
                if self.error is not None:
                    self._leave()
                    return
                await asyncio.sleep(_TICK)
                wait_time += _TICK

    def _is_due(self, wait_time: float) -> bool:
        """Whether this number of seconds after a refresh there is to be another one."""
        seconds = INTERVALS[self._interval][1]
        return seconds is not None and wait_time >= seconds

    def refresh(self) -> None:
        """Shows the rows as they are now."""
        self._at_end = self.finished
        height = self._height()
        count = len(self._rows)
        self._pages = 1 if self._changelog else max(1, -(-count // height))
        if self._page > self._pages:
            self._page = 0
        start = max(0, count - height) if self._changelog else ((self._page or self._pages) - 1) * height
        self._before = self._page_rows if start == self._start else None
        self._start, self._page_rows = start, self._rows.page(start, height)
        if self._selected_row is not None and self._selected_row >= len(self._page_rows):
            self._selected_row = None
        self._updated = datetime.now().strftime("%H:%M:%S.%f")[:-3]

    # the picture

    @property
    def _size(self) -> Size:
        return self._app.output.get_size()

    def _height(self) -> int:
        """Lines for rows."""
        return max(1, self._size.rows - 6 - self._has_types())

    def _has_types(self) -> bool:
        return self._size.rows >= _FIRST_TYPES_AT

    def _text(self) -> StyleAndTextTuples:
        width = self._size.columns
        lines: list[StyleAndTextTuples] = [[("", "SQL Query Result".center(width))], self._status(width), [("", "")]]
        if self._detail is not None:
            lines += self._open_row(width)
        else:
            lines.append(self._line(self._names, "class:head"))
            if self._has_types():
                lines.append(self._line(self._types, "class:types"))
            lines += [self._row(i, row) for i, row in enumerate(self._page_rows)]
        body = self._size.rows - 2
        blank: StyleAndTextTuples = [("", "")]
        lines = lines[:body] + [blank] * (body - len(lines))
        lines += [[("", line)] for line in self._help(width)]
        out: StyleAndTextTuples = []
        for i, line in enumerate(lines):
            out += [("", "\n")] if i else []
            out += line
        return out

    def _status(self, width: int) -> StyleAndTextTuples:
        mode = "Changelog" if self._changelog else "Table"
        left = f" {mode}: query finished" if self._at_end else f" {mode}: refresh {INTERVALS[self._interval][0]}"
        middle = f"Page {self._page or 'last'} of {self._pages}" if not self._changelog else ""
        if self._rows.drop_count:
            middle += f"{', ' if middle else ''}{self._rows.drop_count:,} older rows not kept"
        right = f"{len(self._rows):,} rows, updated {self._updated} "
        space = max(2, width - len(left) - len(middle) - len(right))
        text = left + " " * (space // 2) + middle + " " * (space - space // 2) + right
        return [("class:status", text[:width].ljust(width))]

    def _line(self, texts: Sequence[str], style: str) -> StyleAndTextTuples:
        out: StyleAndTextTuples = []
        for text, width in list(zip(texts, self._widths, strict=True))[self._left :]:
            out += [("", " "), (style, fitted(text, width))]
        return out

    def _row(self, index: int, row: Row) -> StyleAndTextTuples:
        texts = [NULL if value is None else cell(value) for value in row]
        if index == self._selected_row:
            return self._line(texts, "reverse")
        before = None if self._changelog or self._at_end else self._before
        out: StyleAndTextTuples = []
        for i, (text, width) in list(enumerate(zip(texts, self._widths, strict=True)))[self._left :]:
            is_changed = before is not None and (index >= len(before) or before[index][i] != row[i])
            out += [("", " "), ("class:changed" if is_changed else "", fitted(text, width))]
        return out

    def _open_row(self, width: int) -> list[StyleAndTextTuples]:
        assert self._detail is not None
        lines: list[StyleAndTextTuples] = []
        for name, kind, value in zip(self._names, self._types, self._detail, strict=True):
            lines.append([("bold", name), ("class:types", f" {kind}")])
            text = NULL if value is None else value
            for part in text.split("\n"):
                cell_text = cell(part)
                lines += (
                    [("", f"  {cell_text[i : i + width - 2]}")] for i in range(0, max(1, len(cell_text)), width - 2)
                )
        self._opened_from = max(0, min(self._opened_from, len(lines) - 1))
        return lines[self._opened_from :]

    def _help(self, width: int) -> list[str]:
        if self._entry is not None:
            return [f"Page (1 to {self._pages}): {self._entry}_", "Enter shows it, Esc goes back"]
        if self._detail is not None:
            return ["Q Back", ""]
        above = [("Q", "Quit"), ("+", "Inc Refresh"), ("O", "Open Row")]
        below = [("R", "Refresh"), ("-", "Dec Refresh"), ("↑↓", "Select Row")]
        if not self._changelog:
            above[2:2] = [("G", "Goto Page"), ("N", "Next Page")]
            below[2:2] = [("L", "Last Page"), ("P", "Prev Page")]
        each = max(14, width // len(above))
        return ["".join(f"{key} {label}".ljust(each) for key, label in row)[:width] for row in (above, below)]

    # the keys

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()
        entering = Condition(lambda: self._entry is not None)
        row_is_open = Condition(lambda: self._detail is not None)
        main = ~entering & ~row_is_open

        def on(filter_: Any, call: Callable[[], None], *names: str) -> None:
            for name in names:
                keys.add(name, filter=filter_, eager=name == "c-c")(lambda event: call())

        on(main, self._leave, "q", "Q", "escape", "c-c")
        on(main, self.refresh, "r", "R", "f5")
        on(main, lambda: self._select(-1), "w", "W", "up")
        on(main, lambda: self._select(1), "s", "S", "down")
        on(main, lambda: self._scroll(-1), "a", "A", "left")
        on(main, lambda: self._scroll(1), "d", "D", "right")
        on(main, self._open, "o", "O", "enter")
        on(main, lambda: self._change_interval(1), "+")
        on(main, lambda: self._change_interval(-1), "-")
        if not self._changelog:
            on(main, self._enter, "g", "G")
            on(main, lambda: self._go(min(self._pages, (self._page or self._pages) + 1)), "n", "N", "pagedown")
            on(main, lambda: self._go(max(1, (self._page or self._pages) - 1)), "p", "P", "pageup")
            on(main, lambda: self._go(1), "home")
            on(main, lambda: self._go(0), "l", "L", "end")
        on(row_is_open, self._back, "q", "Q", "escape", "c-c", "enter")
        on(row_is_open, lambda: self._scroll_opened(-1), "up")
        on(row_is_open, lambda: self._scroll_opened(1), "down")
        on(entering, self._back, "escape", "c-c")
        on(entering, self._go_to_page, "enter")
        on(entering, self._erase, "backspace")

        @keys.add("<any>", filter=entering)
        def _(event: KeyPressEvent) -> None:
            if event.data.isdecimal() and self._entry is not None and len(self._entry) < 9:
                self._entry += event.data

        return keys

    def _select(self, step: int) -> None:
        if not self._page_rows:
            return
        if self._selected_row is None:
            self._selected_row = len(self._page_rows) - 1 if step < 0 else 0
        else:
            self._selected_row = max(0, min(len(self._page_rows) - 1, self._selected_row + step))

    def _scroll(self, step: int) -> None:
        self._left = max(0, min(len(self._widths) - 1, self._left + step))

    def _open(self) -> None:
        if self._selected_row is not None:
            self._detail, self._opened_from = self._page_rows[self._selected_row], 0

    def _scroll_opened(self, step: int) -> None:
        self._opened_from = max(0, self._opened_from + step)

    def _back(self) -> None:
        self._detail = self._entry = None

    def _change_interval(self, step: int) -> None:
        lowest = 0 if self._changelog else 1
        new_interval = max(lowest, min(len(INTERVALS) - 1, self._interval + step))
        if new_interval != self._interval:
            self._interval = new_interval
            self.refresh()

    def _go(self, page: int) -> None:
        self._page = page
        self._selected_row = None
        self.refresh()

    def _enter(self) -> None:
        self._entry = ""

    def _erase(self) -> None:
        self._entry = (self._entry or "")[:-1]

    def _go_to_page(self) -> None:
        page = int(self._entry or 0)
        if 1 <= page <= self._pages:
            self._go(page)
            self._entry = None
