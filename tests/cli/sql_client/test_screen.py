"""Results on the whole screen: pages that were recorded, keys, and what the screen shows."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest

from stateplan.cli.sql_client.rows import CurrentRows, LastChanges
from stateplan.cli.sql_client.screen import ResultScreen
from stateplan.common.errors import RunError
from stateplan.common.types import STRING
from stateplan.gateway.protocol import ResultColumn, ResultPage
from tests.cli.sql_client.recorded_session import COUNTS, columns, page
from tests.cli.sql_client.screens import ScreenTest, terminal


@pytest.fixture
def tty() -> Iterator[ScreenTest]:
    with terminal() as made:
        yield made


def opened(
    tty: ScreenTest,
    pages: Iterable[ResultPage],
    rows: CurrentRows | LastChanges | None = None,
    of: tuple[ResultColumn, ...] = COUNTS,
) -> ResultScreen:
    """A screen that shows these pages."""
    made: list[ResultScreen] = []
    there = threading.Event()

    def program() -> None:
        made.append(ResultScreen(of, CurrentRows(10**6) if rows is None else rows, 30))
        there.set()
        made[0].run(pages)

    tty.start(program)
    assert there.wait(10)
    return made[0]


def test_a_table_is_kept_up_to_date(tty: ScreenTest) -> None:
    go = threading.Event()

    def pages() -> Iterator[ResultPage]:
        yield page("+I pen 1", "+I ink -", "+I cup 7")
        go.wait(10)
        yield page("-U pen 1", "+U pen 2", "-D cup 7")

    opened(tty, pages())
    shown = tty.until("ink").splitlines()
    assert shown[0].strip() == "SQL Query Result"
    assert shown[1].startswith(" Table: refresh 1 s")
    assert "Page last of 1" in shown[1]
    assert shown[3].split() == ["product", "orders"]
    assert shown[4].split() == ["STRING", "BIGINT", "NOT", "NULL"] or shown[4].split() == ["STRING", "BIGINT"]
    assert [line.split() for line in shown[5:8]] == [["pen", "1"], ["ink", "<NULL>"], ["cup", "7"]]
    assert [line.split("  ")[0] for line in shown[-2:]] == ["Q Quit", "R Refresh"]
    go.set()
    shown = tty.until("query finished").splitlines()
    assert [line.split() for line in shown[5:8]] == [["pen", "2"], ["ink", "<NULL>"], []]
    tty.type("q")
    tty.ended()


def test_pages_of_a_table(tty: ScreenTest) -> None:
    opened(tty, [page(*(f"+I p{i} {i}" for i in range(40)))])
    height = 24 - 7
    tty.until("p39")
    assert "Page last of 3" in tty.text
    tty.type("p")
    tty.until(f"p{height} ")
    assert "Page 2 of 3" in tty.text
    tty.type("p")
    tty.until("p0 ")
    tty.type("pp")  # there is no page before the first one
    tty.until("Page 1 of 3")
    tty.type("n")
    tty.until("Page 2 of 3")
    tty.type("g9\r")  # no such page
    tty.until("Page (1 to 3): 9_")
    tty.type("\x7f3\r")
    tty.until("Page 3 of 3")
    assert "p39" in tty.text
    tty.type("g1\x03")
    tty.until(lambda text: "Goto Page" in text)
    tty.type("\x1b[H")
    tty.until("Page 1 of 3")
    tty.type("l")
    tty.until("Page last of 3")
    tty.type("Q")
    tty.ended()


def test_a_row_is_opened(tty: ScreenTest) -> None:
    long = "x" * 100
    of = columns(name=STRING, text=STRING)
    opened(tty, [page(f"+I a {long}", "+I b second", of=of)], of=of)
    tty.until("second")
    assert "xxx..." in tty.text
    tty.type("o")  # no row is selected
    tty.type("s\r")
    shown = tty.until("Q Back").splitlines()
    assert [line.strip() for line in shown[3:8]] == ["name STRING", "a", "text STRING", "x" * 78, "x" * 22]
    tty.type("q")
    tty.until("Q Quit")
    tty.type("\x1b[B\x1b[Bo")
    tty.until("second")
    tty.until("Q Back")
    tty.type("\x1b")
    tty.until("Q Quit")
    tty.type("\x1b")
    tty.ended()


def test_wide_rows_are_scrolled(tty: ScreenTest) -> None:
    of = columns(**{f"c{i}": STRING for i in range(5)})
    opened(tty, [page("+I v0 v1 v2 v3 v4", of=of)], of=of)
    tty.until("v1")
    assert "v4" not in tty.text
    tty.type("dd\x1b[C")
    tty.until("v4")
    assert "v0" not in tty.text
    tty.type("aaaa")
    tty.until("v0")
    tty.type("q")
    tty.ended()


def test_a_changelog(tty: ScreenTest) -> None:
    changes = [f"+I p{i} {i}" for i in range(30)]
    opened(tty, [page(*changes), page("-U p29 29", "+U p29 30", "-D p0 0")], LastChanges())
    shown = tty.until("query finished").splitlines()
    assert shown[1].startswith(" Changelog: query finished")
    assert shown[3].split() == ["op", "product", "orders"]
    assert [line.split() for line in shown[19:22]] == [["-U", "p29", "29"], ["+U", "p29", "30"], ["-D", "p0", "0"]]
    assert "Goto" not in tty.text
    tty.type("q")
    tty.ended()


def test_the_refresh_interval(tty: ScreenTest) -> None:
    more = threading.Event()

    def pages() -> Iterator[ResultPage]:
        yield page("+I pen 1")
        more.wait(10)
        yield page("+I ink 1")
        while not more.wait(0.01):
            yield page()
        while True:
            threading.Event().wait(0.02)
            yield page()

    opened(tty, pages())
    tty.until("pen")
    for name in ("5 s", "10 s", "1 min", "-"):
        tty.type("+")
        tty.until(f"refresh {name} ")
    tty.type("+")  # there is no longer one
    more.set()
    threading.Event().wait(0.4)
    assert "ink" not in tty.text
    tty.type("r")
    tty.until("ink")
    for name in ("1 min", "10 s", "5 s", "1 s", "500 ms", "100 ms"):
        tty.type("-")
        tty.until(f"refresh {name} ")
    tty.type("-")
    tty.until("refresh 100 ms ")
    tty.type("\x03")
    tty.ended()


def test_an_error_closes_the_screen(tty: ScreenTest) -> None:
    def pages() -> Iterator[ResultPage]:
        yield page("+I pen 1")
        threading.Event().wait(0.3)
        raise RunError.with_text("RUN001", "the job failed")

    screen = opened(tty, pages())
    tty.until("pen")
    tty.ended()
    assert str(screen.error) == "[RUN001] the job failed"


def test_leaving_does_not_read_the_rest(tty: ScreenTest) -> None:
    read = []

    def pages() -> Iterator[ResultPage]:
        while True:
            read.append(1)
            threading.Event().wait(0.01)
            yield page(f"+I pen {len(read)}")

    screen = opened(tty, pages())
    tty.until("pen")
    tty.type("q")
    tty.ended()
    count = len(read)
    threading.Event().wait(0.1)
    assert len(read) == count
    assert not screen.finished


def test_rows_that_are_no_longer_kept(tty: ScreenTest) -> None:
    opened(tty, [page(*(f"+I p{i} {i}" for i in range(30)))], CurrentRows(10))
    tty.until("20 older rows not kept")
    tty.type("q")
    tty.ended()


def test_control_characters_do_not_reach_the_terminal(tty: ScreenTest) -> None:
    of = columns(name=STRING)
    opened(tty, [page("+I \x1b[2J\tx", of=of)], of=of)
    tty.until(r"\u001b[2J\tx")
    tty.type("q")
    tty.ended()
