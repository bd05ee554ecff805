"""Reads test files: SQL that any client can run, and directives in comments that begin at the first column.

A comment in a test is a directive, a row of one, or text for readers, which begins with a capital letter. Anything else
is an error, so that no directive with a typo is lost. Above the first test, comments that are no directives are text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from stateplan.common.errors import Place, PlanError, StateplanError, nearest
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.paths import visible_files
from stateplan.plans.document import edited_ttl
from stateplan.testing.blocks import is_table_row, read_block
from stateplan.testing.story import (
    Action,
    Advance,
    Block,
    Case,
    Directive,
    End,
    Expect,
    Form,
    GivenRows,
    OrderDependence,
    Restart,
    SetTtl,
    Sql,
    Story,
    UsePlan,
    Watermark,
)

START = 1_704_067_200_000
"""Where the clock of a test begins, ms: 2024-01-01 00:00:00."""

_TEST = re.compile(r"test:\s*(.*\S)\s*")
_CLOCK = re.compile(r"clock\s+(.+?)\s*")
_INCLUDE = re.compile(r"include\s+(.+?)\s*")
_ACCEPT = re.compile(r"accept\s+order\s+dependence\s+in\s+(\S.*?)\s*")
_WORDS = (
    "test: TITLE",
    "given TABLE",
    "watermark TABLE TIME",
    "advance DURATION",
    "restart",
    "ttl STATE TTL",
    "plan FILE",
    "end",
    "clock TIME",
    "include FILE",
    "accept order dependence in OPERATOR",
    "expect table",
    "expect changelog",
    "expect rows",
    "expect state STATE: 1 row",
    "expect warning TEXT",
    "expect no warning",
    "expect error CODE",
    "expect lint CODE ...",
)
_FIRST_WORDS = frozenset(word.split()[0].rstrip(":") for word in _WORDS)


@dataclass
class _Draft:
    """A test, or what is above the first one, while it is read."""

    title: str = ""
    line: int = 0
    sql: list[tuple[int, str]] = field(default_factory=list)
    steps: list[Action | Expect] = field(default_factory=list)
    clock: int | None = None
    included: list[Sql] = field(default_factory=list)
    order_dependent: list[OrderDependence] = field(default_factory=list)


def _read_text(path: Path) -> str:
    return path.read_text("utf-8")


class _Reader:
    def __init__(self, text: str, file: str, read_text: Callable[[Path], str]) -> None:
        self.text = text
        self._read_text = read_text
        self.file = file
        self.lines = [line.rstrip("\r") for line in text.split("\n")]
        self.preamble = _Draft()
        self.drafts: list[_Draft] = []
        self.at = 0

    @property
    def draft(self) -> _Draft:
        return self.drafts[-1] if self.drafts else self.preamble

    @property
    def place(self) -> Place:
        return Place(file=self.file, line=self.at, source=self.text, column=1)

    def story(self) -> Story:
        """The tests of the file. Raises StateplanError TEST001, TEST002."""
        while self.at < len(self.lines):
            line = self.lines[self.at]
            self.at += 1
            if line.startswith("--"):
                self._comment(line[2:])
            elif line.strip():
                self.draft.sql.append((self.at, line))
        return Story(self.file, self.text, [self._case(draft) for draft in self.drafts])

    def _comment(self, text: str) -> None:
        body = text.strip()
        if not body:
            return
        if match := _TEST.fullmatch(body):
            if any(match[1] == draft.title for draft in self.drafts):
                raise self._no_directive(body, "a title that no other test of the file has")
            self.drafts.append(_Draft(match[1], self.at))
        elif match := _CLOCK.fullmatch(body):
            self.draft.clock = self._time(match[1])
        elif match := _INCLUDE.fullmatch(body):
            self._include(match[1])
        elif match := _ACCEPT.fullmatch(body):
            names = tuple(name.strip() for name in match[1].split(","))
            self.draft.order_dependent.append(OrderDependence(self.at, body, names))
        elif not self._directive(body) and self.drafts and not self._is_within_statement() and not _is_prose(body):
            raise self._no_directive(body)

    def _is_within_statement(self) -> bool:
        sql = self.draft.sql
        return bool(sql) and not sql[-1][1].split("--")[0].rstrip().endswith(";") and not self.draft.steps

    def _no_directive(self, body: str, expected: str | None = None) -> StateplanError:
        excerpt = body if len(body) <= 60 else body[:57] + "..."
        words = [word.split(" TABLE")[0] for word in _WORDS]
        near = nearest(" ".join(body.split()[:2]), words) or nearest(body.split()[0], words)
        return StateplanError(
            "TEST001",
            text=f"'{excerpt}'",
            place=self.place,
            expected=expected or "a directive, such as 'given TABLE' or 'expect rows', or text with a capital letter",
            hint=near,
        )

    def _directive(self, body: str) -> bool:
        """Reads a directive; whether it is one."""
        for pattern, read in _DIRECTIVES:
            if match := pattern.fullmatch(body):
                try:
                    self.draft.steps.append(read(self, match))
                except PlanError as error:
                    error.place = self.place
                    raise
                return True
        return False

    def without_rows(self, text: str, line: int) -> StateplanError:
        """An error for a directive that rows have to follow."""
        expectation = "a table with a header, such as | a | b |, JSON, CSV or VALUES"
        place = Place(file=self.file, line=line, source=self.text, column=1)
        return StateplanError("TEST002", problem=f"no rows follow '{text}'", place=place, expected=expectation)

    def _include(self, name: str) -> None:
        path = Path(self.file).parent / name
        try:
            text = self._read_text(path)
        except (OSError, ValueError) as cause:
            raise StateplanError("TEST006", path=str(path), why=f"cannot be read: {cause}", place=self.place) from None
        self.draft.included.append(Sql(text, 1, str(path)))

    def _time(self, text: str) -> int:
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise self._no_directive(text, "a time such as 2024-01-01 09:00:00") from None
        return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)

    def block(self, form: Form | None = None) -> Block:
        """The rows that follow."""
        first, lines = self.at + 1, list[str]()
        while self.at < len(self.lines) and self.lines[self.at].startswith("--"):
            text = self.lines[self.at][2:]
            body = text.strip()
            if form is None and re.match(r"VALUES\b", body, re.I):
                form = "values"
            if not body or (form in (None, "table") and not is_table_row(text)) or self._begins_directive(body):
                break
            form = form or "table"
            lines.append(text)
            self.at += 1
        if not lines and form in (None, "table"):
            return Block("table", (), (), first, first - 1)
        return read_block(form or "table", lines, first, self.file)

    def _begins_directive(self, body: str) -> bool:
        patterns = [_TEST, _CLOCK, _INCLUDE, _ACCEPT, *(pattern for pattern, _ in _DIRECTIVES)]
        return any(pattern.fullmatch(body) for pattern in patterns)

    def _case(self, draft: _Draft) -> Case:
        parts = [self._sql(self.preamble), self._sql(draft)]
        sql = (*self.preamble.included, *parts[0], *draft.included, *parts[1])
        clock = next((c for c in (draft.clock, self.preamble.clock) if c is not None), START)
        steps = (*self.preamble.steps, *draft.steps)
        order_dependent = (*self.preamble.order_dependent, *draft.order_dependent)
        return Case(draft.title, self.file, draft.line, sql, steps, clock, order_dependent)

    def _sql(self, draft: _Draft) -> list[Sql]:
        if not draft.sql:
            return []
        lines = [""] * len(self.lines)
        for number, line in draft.sql:
            lines[number - 1] = line
        return [Sql("\n".join(lines), draft.sql[0][0], self.file)]


def _is_prose(body: str) -> bool:
    """Whether a comment is for readers."""
    return body[0].isupper() and body.split()[0].lower() not in _FIRST_WORDS


def _read_given(reader: _Reader, match: re.Match[str]) -> GivenRows:
    line = reader.at
    form: Form | None = "json" if match[2] == "json" else "csv" if match[2] == "csv" else None
    block = reader.block(form)
    if not block.rows and not block.sql:
        raise reader.without_rows(match[0], line)
    return GivenRows(line, match[0], match[1], block)


def _watermark(reader: _Reader, match: re.Match[str]) -> Watermark:
    return Watermark(reader.at, match[0], match[1], reader._time(match[2]))  # noqa: SLF001 - of this module


def _advance(reader: _Reader, match: re.Match[str]) -> Advance:
    return Advance(reader.at, match[0], duration(match[1]))


def _ttl(reader: _Reader, match: re.Match[str]) -> SetTtl:
    return SetTtl(reader.at, match[0], match[1], edited_ttl(match[2]))


def _plan(reader: _Reader, match: re.Match[str]) -> UsePlan:
    return UsePlan(reader.at, match[0], match[1])


def _bare(kind: type[Restart] | type[End], reader: _Reader, match: re.Match[str]) -> Action:
    return kind(reader.at, match[0])


def _expect_rows(reader: _Reader, match: re.Match[str]) -> Expect:
    line = reader.at
    subject = {"table": "table", "changelog": "changelog", "rows": "rows"}[match[1]]
    form: Form | None = "json" if match[4] == "json" else "csv" if match[4] == "csv" else None
    return Expect(line, match[0], subject, match[2] or "", block=reader.block(form), in_order=bool(match[3]))  # type: ignore[arg-type] # one of its words


def _expect_state(reader: _Reader, match: re.Match[str]) -> Expect:
    return Expect(reader.at, match[0], "state", match[1], count=int(match[2]))


def _expect_warning(reader: _Reader, match: re.Match[str]) -> Expect:
    return Expect(reader.at, match[0], "warning", detail=match[1])


def _expect_no_warning(reader: _Reader, match: re.Match[str]) -> Expect:
    return Expect(reader.at, match[0], "no warning")


def _expect_error(reader: _Reader, match: re.Match[str]) -> Expect:
    return Expect(reader.at, match[0], "error", match[1], detail=(match[2] or "").strip())


def _expect_lint(reader: _Reader, match: re.Match[str]) -> Expect:
    return Expect(reader.at, match[0], "lint", detail=match[1] or "")


_DIRECTIVES: Sequence[tuple[re.Pattern[str], Callable[[_Reader, re.Match[str]], Action | Expect]]] = (
    (re.compile(r"given\s+(\S+?)(?:\s+(json|csv))?"), _read_given),
    (re.compile(r"watermark\s+(\S+)\s+(\d{4}-.+)"), _watermark),
    (re.compile(r"advance\s+(\d.*)"), _advance),
    (re.compile(r"restart"), partial(_bare, Restart)),
    (re.compile(r"end"), partial(_bare, End)),
    (re.compile(r"ttl\s+(\S.*?)\s+(never|\d+\s*[a-zµ]+)"), _ttl),
    (re.compile(r"plan\s+(\S+)"), _plan),
    (
        re.compile(
            r"expect\s+(table|changelog|rows)(?:\s+(?!in\s+order|json|csv)(\S+))?(\s+in\s+order)?(?:\s+(json|csv))?"
        ),
        _expect_rows,
    ),
    (re.compile(r"expect\s+state\s+(\S.*?):\s*(\d+)\s+rows?"), _expect_state),
    (re.compile(r"expect\s+no\s+warning"), _expect_no_warning),
    (re.compile(r"expect\s+warning\s+(\S.*)"), _expect_warning),
    (re.compile(r"expect\s+error\s+([A-Z]{2,5}\d{3})(\s+.*)?"), _expect_error),
    (re.compile(r"expect\s+lint((?:\s+[A-Z]{3}\d{3})*)"), _expect_lint),
)  # fmt: skip


def duration(text: str) -> int:
    """Milliseconds of ``2 h`` or ``6 d 23 h 59 min``. Raises PlanError PLAN05x."""
    parts = re.findall(r"\d+\s*[^\d\s]+", text)
    if not parts or "".join("".join(parts).split()) != "".join(text.split()):
        return edited_ttl(text)
    return sum(edited_ttl(part) for part in parts)


def read_story(text: str, file: str, read_text: Callable[[Path], str] = _read_text) -> Story:
    """The tests of a file; ``read_text`` reads those that it includes. Raises StateplanError TEST001, TEST002, TEST006,
    with the line."""
    return _Reader(text, file, read_text).story()


def find_files(paths: Sequence[str]) -> list[str]:
    """The test files below some paths, sorted: ``.sql`` files with a line ``-- test:``.

    Raises:
        StateplanError: TEST006, a path that does not exist or has no tests.
    """
    out: list[str] = []
    for path in paths:
        place = Path(path)
        if not place.exists():
            raise StateplanError("TEST006", path=path, why="does not exist")
        candidates = visible_files(place, "*.sql") if place.is_dir() else [place]
        files = [str(c) for c in candidates if has_tests(c)]
        if not files:
            raise StateplanError("TEST006", path=path, why="has no tests")
        out += files
    return list(dict.fromkeys(out))


def has_tests(path: Path) -> bool:
    """Whether a file has a line ``-- test:``."""
    try:
        return b"-- test:" in path.read_bytes() and any(
            line.startswith("-- test:") for line in path.read_text("utf-8").splitlines()
        )
    except (OSError, ValueError):
        return False


__all__ = ["START", "Directive", "duration", "find_files", "has_tests", "read_story"]
