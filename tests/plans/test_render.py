"""Plans drawn: what is there, and that nothing in a plan gets out of its place."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest

from stateplan.common.errors import PlanError
from stateplan.plans.document import PlanDocument
from stateplan.plans.render import FORMATS, render_explanation, to_html, to_mermaid, to_svg
from stateplan.plans.render.texts import cut_text, text_width
from stateplan.plans.show import show, to_text
from tests.plans.conftest import DATA
from tests.plans.render_plans import NASTY, named, side_by_side

SVG = "{http://www.w3.org/2000/svg}"


def load(name: str) -> PlanDocument:
    return PlanDocument.load(str(DATA / name / "plan.json"))


class Page(HTMLParser):
    """The elements of a page in order, and the text of its scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, str]] = []
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open in ("script", "style"):
            self.inside.append((self._open, data))

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def test_every_plan_is_drawn_whole(flink_plan: Path) -> None:
    document = PlanDocument.load(str(flink_plan))
    view = show(document)
    root = ElementTree.fromstring(to_svg(view))
    drawn_ids = [int(g.get("data-id", "")) for g in root.iter(f"{SVG}g") if "node" in g.get("class", "").split()]
    assert sorted(drawn_ids) == sorted(node.id for node in document.graph.nodes)
    lines = [
        (int(g.get("data-source", "")), int(g.get("data-target", "")))
        for g in root.iter(f"{SVG}g")
        if g.get("class") == "edge"
    ]
    assert sorted(lines) == sorted(document.graph.edges)
    page = Page(to_html(view))
    in_page = [a for a in page.of("g") if "node" in (a.get("class") or "").split()]
    assert len(in_page) == 2 * len(document.graph.nodes), "from the left to the right, and from the top to the bottom"
    mermaid = to_mermaid(view)
    assert len(re.findall(r"^    n\d+(\[|\[/|\[\()\"", mermaid, flags=re.M)) == len(document.graph.nodes)
    assert len(re.findall(r"^    n\d+ -->", mermaid, flags=re.M)) == len(document.graph.edges)


def test_ttls_stand_in_the_operator_that_keeps_them() -> None:
    view = show(load("join").set_ttl(5, "leftState", "7 d").set_ttl(5, "rightState", "0 ms"))
    root = ElementTree.fromstring(to_svg(view))
    labels = {
        (g.get("data-id"), g.get("data-index")): "".join(t.text or "" for t in g.iter(f"{SVG}text"))
        for g in root.iter(f"{SVG}g")
        if g.get("class") == "kept"
    }
    assert labels == {("5", "0"): "left: 7 d", ("5", "1"): "right: never"}
    mermaid = to_mermaid(view)
    assert 'n2 -->|"left: 7 d"| n5' in mermaid
    assert 'n4 -->|"right: never expires"| n5' in mermaid


def test_one_state_needs_no_name() -> None:
    assert re.search(r'n\d+ -->\|"1 h"\| n\d+', to_mermaid(show(load("dedup"))))


def test_stateful_operators_look_different() -> None:
    root = ElementTree.fromstring(to_svg(show(load("join"))))
    nodes = [g for g in root.iter(f"{SVG}g") if "node" in g.get("class", "").split()]
    kinds = {int(g.get("data-id", "")): g.get("class", "").split() for g in nodes}
    assert [i for i, names in kinds.items() if "stateful" in names] == [5]
    assert "source" in kinds[1]
    assert "sink" in kinds[7]
    assert [i for i, names in kinds.items() if "chip" in names] == [2, 4, 6]


def test_sources_and_sinks_are_called_by_their_tables() -> None:
    root = ElementTree.fromstring(to_svg(show(named("parts"))))
    titles = {text.text for text in root.iter(f"{SVG}text") if text.get("class") == "title"}
    assert "parts [1]" in titles
    assert "join [5]" in titles


@pytest.mark.parametrize("text", NASTY)
def test_names_stay_text(text: str) -> None:
    """Whatever a table is called, the page has the same elements, no attribute that runs, and one script of its own."""
    view, harmless = show(named(text)), show(named("harmless"))
    assert text in view.operators[0].summary
    page, other = Page(to_html(view)), Page(to_html(harmless))
    tags = [tag for tag, _ in page.elements]
    assert [t for t in tags if t != "text"] == [t for t, _ in other.elements if t != "text"]
    assert not [a for _, attributes in page.elements for a in attributes if a.startswith("on") or a == "style"]
    assert [a.get("type") for a in page.of("script")] == ["application/json", None]
    ElementTree.fromstring(to_svg(view))
    label = r'"(?:[^"`<>&#$%\\]|&[a-z]+;|<br/>)*"'
    for line in to_mermaid(view).splitlines():
        assert re.fullmatch(
            rf"flowchart TD|    accTitle: [\w .,/-]+|    n\d+[\[(/]+{label}[\])/]+|    n\d+ -->(\|{label}\|)? n\d+"
            r"|    classDef .*|    class [n\d,]+ stateful",
            line,
        ), line


def test_the_page_loads_nothing_and_runs_only_its_own_script() -> None:
    text = to_html(show(load("join")))
    page = Page(text)
    policy = next(a["content"] for a in page.of("meta") if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert text.index("Content-Security-Policy") < text.index("<style>")
    style, data, script = (content for _, content in page.inside)
    for directive, content in (("style-src", style), ("script-src", script)):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert [o["id"] for o in json.loads(data)] == [1, 2, 3, 4, 5, 6, 7]
    for _, attributes in page.elements:
        assert not attributes.keys() & {"src", "srcset", "action", "poster", "background", "xlink:href"}
        assert attributes.get("href", "data:,") == "data:,"
    assert "url(" not in style
    assert "@import" not in style


def test_an_svg_has_no_script_and_needs_nothing() -> None:
    text = to_svg(show(named("</style><script>alert(1)</script>")))
    root = ElementTree.fromstring(text)
    allowed = {"svg", "title", "desc", "style", "rect", "g", "path", "text"}
    assert {element.tag.removeprefix(SVG) for element in root.iter()} == allowed
    assert "href" not in text
    assert "prefers-color-scheme: dark" in text


def test_the_page_can_be_read_without_its_script() -> None:
    text = to_html(show(load("join")))
    table = text[text.index("<table>") : text.index("</table>")]
    rows = re.findall(r"<td>leftState</td><td>1 h</td><td>from the plan</td>", table)
    assert len(rows) == 1
    assert "<button" in table
    tools = next(a for tag, a in Page(text).elements if a.get("class") == "tools")
    assert "hidden" in tools


def test_everything_that_can_be_used_has_a_name() -> None:
    text = to_html(show(load("join")))
    page = Page(text)
    nodes = [a for a in page.of("g") if "node" in (a.get("class") or "").split()]
    assert all(a.get("role") == "button" and a.get("aria-label") for a in nodes)
    assert any((a.get("aria-label") or "").startswith("join [5]: joins left and right") for a in nodes)
    assert '<label for="search">' in text
    assert '<html lang="en">' in text


def test_frozen_plans_of_flink(shared: Path) -> None:
    """Plans of older releases, and with operators that are not run here, are shown and drawn all the same."""
    plans = sorted(shared.glob("plans/*/*.json"))
    for plan in plans:
        document = PlanDocument.load(str(plan))
        view = show(document)
        assert f"[{document.graph.nodes[-1].id}] " in to_text(view)
        assert to_mermaid(view).count(" -->") == len(document.graph.edges)
        ElementTree.fromstring(to_svg(view))
        assert render_explanation(document, {}, "html").count('class="edge"') == 2 * len(document.graph.edges)
        assert "== State ==" in render_explanation(document, {}, "text", ["changelog_mode", "json_execution_plan"])
    assert len(plans) > 100


@pytest.mark.parametrize("form", FORMATS)
def test_five_hundred_operators(shared: Path, form: str) -> None:
    document = side_by_side(shared, 500)
    before = time.process_time()
    text = render_explanation(document, {}, form)
    assert time.process_time() - before < 5
    assert len(document.graph.nodes) >= 500
    assert len(text) < 1_500_000


def test_details_go_with_text_only() -> None:
    with pytest.raises(PlanError, match="PLAN182"):
        render_explanation(load("join"), {}, "svg", ["changelog_mode"])


def test_formats_that_there_are_not() -> None:
    with pytest.raises(PlanError) as caught:
        render_explanation(load("join"), {}, "htm")
    assert caught.value.code == "PLAN184"
    assert "did you mean 'html'" in str(caught.value)


def test_a_title_that_its_box_is_made_for_is_not_cut() -> None:
    for number in range(200):
        title = f"deduplicate [{number}]"
        width = text_width(title, 13.78) + 18.0
        assert cut_text(title, width - 18.0, 13.78) == title
