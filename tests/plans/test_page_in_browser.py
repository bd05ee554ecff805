"""The page of a plan in a real browser: clicks, keys, sizes, colours; no errors, and no request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scripts.browser import find_browser
from stateplan.plans.document import PlanDocument
from stateplan.plans.render import to_html, to_svg
from stateplan.plans.show import show
from tests.plans.conftest import DATA
from tests.plans.render_plans import NASTY, named, side_by_side

KEYS = {
    True: ("ArrowRight", "ArrowLeft", "ArrowDown", "ArrowUp"),
    False: ("ArrowDown", "ArrowUp", "ArrowRight", "ArrowLeft"),
}
"""Whether the plan goes from the left to the right -> the keys to readers, to inputs, and to what stands beside."""

WIDE, NARROW = {"width": 1600, "height": 900}, {"width": 400, "height": 800}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium: 'make browser' says how to get one")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found.program, env=found.environment)
        yield started
        started.close()


class Opened:
    """A page in the browser, with everything that it said or asked for."""

    def __init__(self, browser: Any, file: Path, size: dict[str, int], **options: Any) -> None:
        self.context = browser.new_context(viewport=size, **options)
        self.page = self.context.new_page()
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.said.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.as_uri())

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def focused(self) -> str:
        """What has the focus: the operator's id, else the element's id or text."""
        got: str = self.page.evaluate("(e => e.dataset.id ?? (e.id || e.textContent.trim()))(document.activeElement)")
        return got

    @property
    def title(self) -> str | None:
        """Whose details are shown."""
        shown = self.page.locator("#details")
        text: str | None = self.page.locator("#details-title").inner_text() if shown.is_visible() else None
        return text

    def rests(self, node: str) -> float:
        """How opaque an operator is in the end, when it has faded in or out."""
        faded: float = self.page.evaluate(
            """async id => {
              const node = document.querySelector(`.node[data-id="${id}"]`);
              await Promise.all(node.getAnimations().map(animation => animation.finished));
              return Number(getComputedStyle(node).opacity);
            }""",
            node,
        )
        return faded

    def sees(self, selector: str) -> bool:
        """Whether the middle of an element is on the screen with nothing above it."""
        seen: bool = self.page.evaluate(
            """selector => {
              const found = document.querySelector(selector), box = found.getBoundingClientRect();
              const top = document.elementFromPoint(box.left + box.width / 2, box.top + box.height / 2);
              return top !== null && (found.contains(top) || top.contains(found));
            }""",
            selector,
        )
        return seen


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    """Opens a plan's page; at the end nothing has been said, and nothing but the page has been asked for."""
    pages: list[Opened] = []

    def open_page(document: PlanDocument, size: dict[str, int], **options: Any) -> Opened:
        file = tmp_path / f"page{len(pages)}.html"
        file.write_text(to_html(show(document)), encoding="utf-8")
        pages.append(Opened(browser, file, size, **options))
        return pages[-1]

    yield open_page
    for position, page in enumerate(pages):
        assert page.said == []
        assert [url for url in page.asked if not url.startswith("data:")] == [
            (tmp_path / f"page{position}.html").as_uri()
        ]
        page.context.close()


def load(name: str) -> PlanDocument:
    return PlanDocument.load(str(DATA / name / "plan.json"))


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_click_shows_the_details(opened: Any, size: dict[str, int]) -> None:
    page = opened(load("join").set_ttl(5, 0, "7 d"), size)
    assert page.title is None
    page.locator('.node[data-id="5"]').click()
    assert page.title == "join [5]"
    body = page.locator("#details-body").inner_text()
    assert "joins left and right on left.k = right.k" in body
    assert re.search(r"leftState\s+ttl 7 d\s+from the plan", body)
    assert page.sees("#details-title")
    assert page.sees('.node[data-id="5"] .title')
    page.get_by_role("button", name="exchange [4]", exact=True).click()
    assert page.title == "exchange [4]"
    page.get_by_role("button", name="Close details").click()
    assert page.title is None
    assert page.focused == "4"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_by_keyboard_alone(opened: Any, size: dict[str, int]) -> None:
    page = opened(load("join"), size)
    for _ in range(10):
        page.press("Tab")
        if page.focused == "1":
            break
    assert page.focused == "1", "Tab comes to the graph"
    on, back, next_, before = KEYS[size == WIDE]
    page.press(on, on)
    assert page.focused == "5"
    outline = page.evaluate("getComputedStyle(document.activeElement.querySelector('.box')).strokeWidth")
    assert outline == "3px", "the focus can be seen"
    page.press("Enter")
    assert page.title == "join [5]"
    assert page.sees('.node[data-id="5"] .title')
    page.press(back)
    assert page.title == f"exchange [{page.focused}]"
    first = page.focused
    page.press(next_ if first == "2" else before)
    assert {first, page.focused} == {"2", "4"}
    page.press("Escape")
    assert page.title is None
    assert page.focused in ("2", "4")
    page.press("End")
    assert page.focused == "7"
    page.press(" ")
    assert page.title == "sink [7]"
    page.press("Home", "Tab")
    assert page.focused == "join [5]", "behind the graph is the list of states"
    page.press("Enter")
    assert page.title == "join [5]"


def test_search(opened: Any) -> None:
    page = opened(load("join"), WIDE)
    page.press("/")
    assert page.focused == "search"
    page.keyboard.type("exchange")
    assert page.locator("#found").inner_text() == "2 of 7 operators"
    assert page.locator(".node.match").count() == 2
    assert page.locator("#graph svg.searching").count() == 1
    assert page.rests("5") < 0.5 < page.rests("2")
    page.press("Enter")
    assert (page.title, page.focused) == ("exchange [2]", "search")
    page.press("Enter")
    assert page.title == "exchange [4]"
    page.press("Enter")
    assert page.title == "exchange [2]"
    page.press("Shift+Enter")
    assert page.title == "exchange [4]"
    page.press("Escape")
    assert page.locator("#search").input_value() == ""
    assert page.locator(".node.match").count() == 0
    page.keyboard.type("leftState 1 h")
    assert page.locator("#found").inner_text() == "1 of 7 operators"
    assert page.locator(".states tbody tr:visible").count() == 2
    page.keyboard.type("nothing like it")
    assert page.locator("#found").inner_text() == "0 of 7 operators"
    page.press("Enter")


def test_letters_in_the_search_do_not_zoom(opened: Any) -> None:
    page = opened(load("join"), WIDE)
    width = page.locator("#graph svg").get_attribute("width")
    page.locator("#search").fill("")
    page.locator("#search").press("+")
    assert page.locator("#graph svg").get_attribute("width") == width
    page.locator("#in").click()
    assert float(page.locator("#graph svg").get_attribute("width")) > float(width)
    page.locator("#fit").click()
    page.press("-")
    assert float(page.locator("#graph svg").get_attribute("width")) < float(width)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_nothing_is_wider_than_the_screen(opened: Any, size: dict[str, int]) -> None:
    for document in (load("join"), named(NASTY[4])):
        page = opened(document, size)
        page.locator(".node").first.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


@pytest.mark.parametrize("text", NASTY)
def test_names_do_nothing(opened: Any, text: str) -> None:
    """The fixture checks that no script of a name ran, nothing was asked for, and no policy was broken."""
    page = opened(named(text), WIDE)
    page.locator('.node[data-id="1"]').click()
    assert page.title == "table-source-scan [1]"
    assert page.locator("#details-body").locator("img, svg, script").count() == 0
    page.locator("#search").fill(text[:40])
    assert page.locator("img").count() == 0


def test_the_policy_stops_what_is_not_ours(browser: Any, tmp_path: Path) -> None:
    """Were something to get into the page, it would not run, nor load."""
    file = tmp_path / "page.html"
    evil = '<img src="http://127.0.0.1:9/x.png" onerror="document.title = 1"><script>document.title = 2</script>'
    file.write_text(to_html(show(load("join"))).replace("</header>", f"{evil}</header>"))
    page = Opened(browser, file, WIDE)
    assert "Plan" in page.page.title()
    assert any("Content Security Policy" in said for said in page.said)
    page.context.close()


def test_light_and_dark(opened: Any) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    text = "getComputedStyle(document.querySelector('.node .title')).fill"
    colours = []
    for scheme in ("light", "dark"):
        page = opened(load("join"), WIDE, color_scheme=scheme)
        colours.append([sum(map(int, re.findall(r"\d+", page.evaluate(what))[:3])) for what in (ground, text)])
    (light, ink), (dark, chalk) = colours
    assert light > 600 > 200 > ink
    assert chalk > 600 > 200 > dark


def test_without_scripts_the_plan_is_there(opened: Any) -> None:
    page = opened(load("join"), WIDE, java_script_enabled=False)
    assert page.locator(".node:visible").count() == 7
    assert page.locator(".states tbody tr").count() == 2
    assert not page.locator(".tools").is_visible()


def test_an_svg_stands_alone(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "plan.svg"
    file.write_text(to_svg(show(named(NASTY[0]))), encoding="utf-8")
    page = Opened(browser, file, WIDE)
    assert page.locator(".node").count() == 7
    assert page.said == []
    assert page.asked == [file.as_uri()]
    page.context.close()


def test_texts_fit_into_their_boxes(opened: Any, shared: Path) -> None:
    """No text goes over the edge of its box, no TTL lies on another or on a box: in all cases of Flink's, and where
    names are long."""
    for document in (side_by_side(shared, 1), named(NASTY[3]), named(NASTY[4]), named("W" * 50)):
        page = opened(document, WIDE)
        over = page.evaluate(
            """() => [...document.querySelectorAll(".node text, .kept text")].filter(text => {
              const box = text.parentNode.querySelector("rect").getBBox(), own = text.getBBox();
              return own.x < box.x || own.x + own.width > box.x + box.width || own.y + own.height > box.y + box.height;
            }).map(text => text.textContent)"""
        )
        assert over == []
        covered = page.evaluate(
            """() => {
              const boxes = [...document.querySelectorAll("rect.pill, rect.box")].map(r => [r, r.getBBox()]);
              return boxes.filter(([r, a]) => r.matches(".pill") && boxes.some(([other, b]) => other !== r &&
                !(other.matches(".box") && other.parentNode === r.parentNode.parentNode) &&
                a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height))
                .map(([r]) => r.parentNode.textContent);
            }"""
        )
        assert covered == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_no_line_runs_through_a_box(opened: Any, shared: Path, size: dict[str, int]) -> None:
    page = opened(side_by_side(shared, 1), size)
    crossed = page.evaluate(
        """() => {
          const boxes = [...document.querySelectorAll("rect.box")].map(r => [r.parentNode.dataset.id, r.getBBox()]);
          const within = (at, from, size) => at > from + 2 && at < from + size - 2;
          const inside = (p, b) => within(p.x, b.x, b.width) && within(p.y, b.y, b.height);
          return [...document.querySelectorAll(".edge .line")].flatMap(line => {
            const length = line.getTotalLength();
            const points = Array.from({ length: Math.ceil(length / 3) }, (_, i) => line.getPointAtLength(i * 3));
            return boxes.filter(([, b]) => points.some(p => inside(p, b)))
              .map(([id]) => `${line.parentNode.dataset.source}-${line.parentNode.dataset.target} through ${id}`);
          });
        }"""
    )
    assert crossed == []


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_line_begins_and_ends_at_its_operators(opened: Any, shared: Path, size: dict[str, int]) -> None:
    page = opened(side_by_side(shared, 1), size)
    apart = page.evaluate(
        """() => {
          const rects = [...document.querySelectorAll("rect.box")];
          const boxes = new Map(rects.map(r => [r.parentNode.dataset.id, r.getBBox()]));
          const gap = (at, from, size) => Math.max(from - at, at - from - size, 0);
          const distance = (p, b) => Math.max(gap(p.x, b.x, b.width), gap(p.y, b.y, b.height));
          return [...document.querySelectorAll(".edge .line")].flatMap(line => {
            const { source, target } = line.parentNode.dataset;
            const end = line.getPointAtLength(line.getTotalLength());
            const gaps = [distance(line.getPointAtLength(0), boxes.get(source)), distance(end, boxes.get(target))];
            return gaps.some(g => g > 8) ? [`${source}-${target} ${gaps}`] : [];
          });
        }"""
    )
    assert apart == []


def test_thirty_operators_with_six_states_are_read_without_zoom(opened: Any) -> None:
    page = opened(PlanDocument.load(str(DATA.parent / "large" / "plan.json")), {"width": 1400, "height": 900})
    found = page.evaluate(
        """() => {
          const svg = document.querySelector("#graph svg"), frame = document.querySelector("#graph");
          const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
          const sizes = [...svg.querySelectorAll("text")].map(t => scale * parseFloat(getComputedStyle(t).fontSize));
          return [svg.dataset.way, Math.min(...sizes), frame.scrollWidth - frame.clientWidth,
            frame.scrollHeight - frame.clientHeight, svg.querySelectorAll(".node").length];
        }"""
    )
    way, smallest, right, below, nodes = found
    assert (way, right, below, nodes) == ("across", 0, 0, 30), "all of it is in sight"
    assert smallest >= 11


def test_five_hundred_operators_can_be_used(opened: Any, shared: Path) -> None:
    document = side_by_side(shared, 500)
    page = opened(document, NARROW)
    last = str(document.graph.nodes[-1].id)
    page.locator("#search").fill(f"[{last}]")
    page.press("Enter")
    assert page.title == f"sink [{last}]"
    assert page.sees(f'.node[data-id="{last}"] .title')
