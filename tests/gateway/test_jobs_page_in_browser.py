"""The page of jobs in a real browser: keys, sizes, colours, a gateway that goes away, the TTL of a job on Spark.

Nothing is asked of any other server, and nothing is said on the console.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect, sync_playwright
from starlette.applications import Starlette

from scripts.browser import find_browser
from stateplan.gateway.page.inspections import Inspection
from stateplan.gateway.page.service import JobsPage
from stateplan.gateway.rest.jobs_api import routes
from stateplan.plans.job_snapshot import JobPlan
from stateplan.runtime.checkpoint.live_ttl import Setting, StateTtl, editing, read_ttls
from stateplan.runtime.completion_forecast import Forecast
from stateplan.runtime.job import Progress
from stateplan.session.environment import TableEnvironment
from stateplan.session.jobs import JobEntry, JobRecord, Jobs, PlanChange
from tests.gateway.gateway_page import ENDED, served
from tests.support.job_records import PLAN, job_checkpoint

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 360, "height": 740}
DONE, FAILED = "a" * 32, "b" * 32


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    found = find_browser()
    if found is None:
        pytest.skip("no Chromium: 'make browser' says how to get one")
    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found.program, env=found.environment)
        yield started
        started.close()


def ended_jobs(folder: Path) -> Jobs:
    """One that has finished, with figures in its checkpoint; one that failed."""
    jobs = Jobs()
    done = JobEntry(DONE, "orders", "INSERT INTO snk SELECT 1", 1_000, None, ENDED, "FINISHED")
    done.checkpoint, done.plan = job_checkpoint(folder / "cp", 40), PLAN.read_text()
    error = "[DATA301] CAST failed: 'abc' is not a valid BIGINT"
    failed = JobEntry(FAILED, "<b>broken</b>", "INSERT INTO snk SELECT 2", 2_000, None, ENDED, "FAILED", error)
    for entry in (done, failed):
        jobs._entries[entry.id] = entry
    return jobs


def app_of(jobs: Jobs) -> Starlette:
    return Starlette(routes=routes(JobsPage(jobs, lambda action, who, **facts: None), lambda request: "ada"))


class Opened:
    """A page in the browser, with everything that it said or asked for."""

    def __init__(self, browser: Any, url: str, size: dict[str, int], **options: Any) -> None:
        self.context = browser.new_context(viewport=size, **options)
        self.page = self.context.new_page()
        self.page.set_default_timeout(60_000)
        self.said: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", lambda message: self.said.append(message.text))
        self.page.on("pageerror", lambda error: self.said.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(url)
        self.page.locator("h1").wait_for()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    @property
    def focused(self) -> str:
        """The name of what has the focus."""
        got: str = self.page.evaluate(
            "(e => e.dataset.id ?? e.getAttribute('aria-label') ?? e.textContent.trim())(document.activeElement)"
        )
        return got

    def tab_to(self, name: str) -> None:
        """Presses Tab until something of this name has the focus."""
        for _ in range(80):
            if self.focused.startswith(name):
                return
            self.press("Tab")
        raise AssertionError(f"Tab does not come to {name}")


@pytest.fixture
def opened(browser: Any, tmp_path: Path) -> Iterator[Any]:
    pages: list[Opened] = []
    with served(app_of(ended_jobs(tmp_path))) as address:

        def open_page(where: str, size: dict[str, int], **options: Any) -> Opened:
            pages.append(Opened(browser, f"{address}/{where}", size, **options))
            return pages[-1]

        yield open_page
        for page in pages:
            assert [text for text in page.said if "status of 400" not in text] == []
            assert {url for url in page.asked if not url.startswith((address, "data:"))} == set()
            page.context.close()


def test_the_list_is_filtered_by_keyboard(opened: Any) -> None:
    page = opened("", WIDE)
    page.get_by_role("link", name="orders").wait_for()
    expect(page.get_by_role("row")).to_have_count(3)
    page.tab_to("Failed 1")
    page.press("Enter")
    expect(page.get_by_role("row")).to_have_count(2)
    assert page.locator("b").count() == 0, "names are text"
    page.tab_to("<b>broken</b>")
    page.press("Enter")
    page.get_by_text("DATA301: ").wait_for()
    assert page.get_by_text("Remedy: ").is_visible() and page.get_by_text("Cause: ").is_visible()


def test_a_job_whose_plan_changes_and_the_one_that_replaces_it(browser: Any, tmp_path: Path) -> None:
    jobs = ended_jobs(tmp_path)
    entry, successor = jobs.find(DONE), jobs.find(FAILED)
    entry.status, entry.ended = "RESTARTING", None
    entry.change = PlanChange("making the state of join[5] from history", Progress(rows_in=1200))
    with served(app_of(jobs)) as address:
        page = Opened(browser, address, WIDE)
        expect(page.get_by_role("row", name="orders").get_by_text("Changing", exact=True)).to_be_visible()
        page.get_by_role("link", name="orders").click()
        stage = page.get_by_text(
            "Its plan changes: making the state of join[5] from history, 1,200 rows of history read"
        )
        expect(stage).to_be_visible()
        entry.change = replace(entry.change, progress=Progress(rows_in=1500, forecast=Forecast(0.25, 7.5, None)))
        expect(page.get_by_text("1,500 rows of history read, 25%, about 7 s left")).to_be_visible()
        entry.change, entry.status, entry.ended = None, "FINISHED", ENDED
        successor.record = JobRecord("orders", "ALTER JOB", replaces=entry.id)
        successor.checkpoint = tmp_path / "ck-2"
        expect(page.get_by_text(f"with the checkpoint {tmp_path / 'ck-2'}")).to_be_visible()
        expect(page.get_by_text("Its plan changes")).to_be_hidden()
        page.get_by_role("link", name=FAILED).click()
        expect(page.get_by_role("heading", name="<b>broken</b>")).to_be_visible()
        assert page.said == []
        page.context.close()


def test_a_job_that_there_is_not(opened: Any) -> None:
    page = opened("#/jobs/nosuch", WIDE)
    page.get_by_text("The gateway does not know this job").wait_for()
    page.get_by_role("heading", name="Unknown job").wait_for()
    expect(page.get_by_role("heading"), "no empty tables and plots").to_have_count(1)
    page.said.clear()  # the browser notes the answer 404


def test_an_error_says_each_thing_once(opened: Any) -> None:
    page = opened("", WIDE)
    page.get_by_role("link", name="<b>broken</b>").click()
    page.get_by_text("DATA301: ").wait_for()
    whole = page.locator(".error").first.inner_text()
    assert whole.count("DATA301") == 1
    assert "`" not in whole
    expect(page.locator(".error code")).to_have_text(["TRY_CAST", "NULL"])


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_job_at_two_sizes(opened: Any, size: dict[str, int]) -> None:
    page = opened(f"#/jobs/{DONE}", size)
    page.locator(".node").first.wait_for()
    assert page.title() == "orders - stateplan"
    expect(page.locator(".figure.rows")).to_have_text(["1,039 stored", "20 stored"])
    expect(page.locator(".figure.size")).to_have_text(["303 KiB", "700 B"])
    expect(page.locator(".figure.flow", has_text="at 00:01:00")).to_have_count(1)
    assert all("," in curve.get_attribute("points") for curve in page.locator(".curve").all())
    page.locator('.node[data-id="5"]').click()
    assert page.get_by_role("heading", name="join [5]").is_visible()
    page.get_by_text("The newest micro-batches as a table").click()
    page.get_by_text("The plan now against the plan as submitted").click()
    page.get_by_text("The plans are equivalent.").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]


def counted_job(folder: Path, report: dict[str, Any], ago_ms: int) -> Starlette:
    """The page of the ended jobs, with a count of the first one's state."""
    jobs = ended_jobs(folder)
    page = JobsPage(jobs, lambda action, who, **facts: None)
    page._inspections._results[DONE] = Inspection(report, time.time_ns() // 1_000_000 - ago_ms, 2_000)
    return Starlette(routes=routes(page, lambda request: "ada"))


def count_after(batch: int, live: tuple[int, int]) -> dict[str, Any]:
    """A count after a micro-batch, at 23:59:59 of the first day; the oldest rows are from its begin."""
    facts = {"id": 5, "expiredRows": 0, "oldestMillis": 0, "dueInHour": 0}
    states = [{**facts, "index": index, "liveRows": rows} for index, rows in enumerate(live)]
    return {"batch": batch, "nowMillis": 86_399_000, "clock": "system clock", "total": {}, "states": states}


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_figures_fit_into_their_cards_and_plots(browser: Any, tmp_path: Path, size: dict[str, int]) -> None:
    with served(counted_job(tmp_path, count_after(39, (999_600, 99_949)), 3_599_000)) as address:
        page = Opened(browser, f"{address}/#/jobs/{DONE}", size)
        rows = [re.compile(r"^1\.00M live (59 min|1 h) ago$"), re.compile(r"^99\.9k live ")]
        expect(page.locator(".figure.rows")).to_have_text(rows)
        expect(page.locator(".figure.size")).to_have_text(["303 KiB, oldest 23 h", "700 B, oldest 23 h"])
        oldest = page.get_by_role("row", name=re.compile("^join.left")).get_by_role("cell").nth(4)
        expect(oldest).to_have_text("23 h 59 min")
        outside = page.evaluate(
            """() => [...document.querySelectorAll(".node:not(.chip)")].flatMap(node => {
              const box = node.querySelector(".box").getBBox();
              return [...node.querySelectorAll("text")].filter(text => text.textContent).filter(text => {
                const at = text.getBBox();
                return at.x < box.x || at.x + at.width > box.x + box.width || at.y + at.height > box.y + box.height;
              }).map(text => text.textContent);
            })"""
        )
        assert outside == []
        over = page.evaluate(
            """() => [...document.querySelectorAll(".chart")].filter(chart => {
              const line = chart.querySelector(".line").getBoundingClientRect();
              const label = chart.querySelector(".top").getBoundingClientRect();
              return label.bottom > line.top - 0.05 * chart.querySelector("svg").clientHeight;
            }).length"""
        )
        assert over == 0, "no line runs through the upper end of a scale, however high it is"
        page.context.close()


def test_a_count_with_another_ttl_is_not_shown(browser: Any, tmp_path: Path) -> None:
    app = counted_job(tmp_path, count_after(30, (700, 600)), 5_000)
    uid = JobPlan.of(tmp_path / "cp").states()[5, 1].view.uid
    settings = (Setting(3_600_000, 0, "plan", 0), Setting(7_200_000, 35, "live", 5, "ada"))
    with editing(tmp_path / "cp") as record:
        record[uid, 1] = StateTtl(uid, 1, "join.right", 3_600_000, settings)
    with served(app) as address:
        page = Opened(browser, f"{address}/#/jobs/{DONE}", WIDE)
        page.get_by_text("A TTL has changed since").wait_for()
        expect(page.locator(".figure.rows")).to_have_text([re.compile("^700 live "), "20 stored"])
        cells = page.get_by_role("row", name=re.compile("^join.right")).first.get_by_role("cell")
        for column in range(2, 6):
            expect(cells.nth(column)).to_have_text("")
        page.context.close()


def test_the_graph_and_the_plots_by_keyboard(opened: Any) -> None:
    page = opened(f"#/jobs/{DONE}", WIDE)
    page.locator(".node").first.wait_for()
    page.tab_to("1")
    page.press("ArrowRight", "ArrowRight", "Enter")
    assert page.focused == "5" and page.get_by_role("heading", name="join [5]").is_visible()
    assert page.evaluate("getComputedStyle(document.activeElement.querySelector('.box')).strokeWidth") == "3px"
    page.press("Escape")
    assert page.focused == "5" and not page.get_by_role("heading", name="join [5]").is_visible()
    page.tab_to("Duration")
    page.press("ArrowLeft", "ArrowLeft")
    plot = page.get_by_role("slider", name="Duration")
    assert plot.get_attribute("aria-valuetext") == "micro-batch 37: 500 ms"
    assert page.get_by_role("slider", name="Stored state").get_attribute("aria-valuenow") == "37", "all are marked"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_ttl_of_a_stopped_job_by_keyboard(opened: Any, size: dict[str, int], tmp_path: Path) -> None:
    page = opened(f"#/jobs/{DONE}", size)
    page.locator(".node").first.wait_for()
    page.tab_to("TTL of join.right")
    page.press("Enter")
    assert page.focused == "New TTL of join.right"
    page.keyboard.type("2 hx")
    page.press("Enter")
    page.get_by_text("PLAN055").first.wait_for()
    page.press("Escape")
    assert page.focused.startswith("TTL of join.right: 1 h")
    page.press("Enter")
    page.keyboard.type("2 h")
    page.press("Enter")
    page.get_by_role("button", name="Set 2 h").wait_for()
    assert page.focused == "Set 2 h", "what it would free is told, or why it cannot be counted"
    assert page.get_by_text("The next start applies the TTL").is_visible()
    assert not (tmp_path / "cp" / "ttl.json").exists()
    page.press("Enter")
    page.get_by_role("button", name="TTL of join.right: 1 h \u2192 2 h. Edit").wait_for()
    (state,) = read_ttls(tmp_path / "cp").values()
    assert state.asked is not None and (state.asked.ttl, state.asked.who) == (7_200_000, "ada")
    assert page.get_by_role("row", name=re.compile("join.right.*ada.*from the next micro-batch on")).is_visible()
    assert page.focused.startswith("TTL of join.right")


def test_light_and_dark(opened: Any) -> None:
    sums = []
    for scheme in ("light", "dark"):
        page = opened(f"#/jobs/{DONE}", WIDE, color_scheme=scheme)
        page.locator(".node").first.wait_for()
        ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
        ink = page.evaluate("getComputedStyle(document.querySelector('.node .title')).fill")
        sums.append([sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ground, ink)])
    (light, ink), (dark, chalk) = sums
    assert light > 600 > 200 > ink
    assert chalk > 600 > 200 > dark


def test_a_gateway_that_is_away_is_tried_again(browser: Any, tmp_path: Path) -> None:
    jobs = ended_jobs(tmp_path)
    with served(app_of(jobs)) as address:
        page = Opened(browser, f"{address}/#/jobs/{DONE}", WIDE)
        page.get_by_text("Connected").wait_for()
        page.locator(".node").first.wait_for()
    page.get_by_text("Reconnecting").wait_for()
    expect(page.locator(".node"), "the last answer is still shown").to_have_count(7)
    with served(app_of(Jobs()), int(address.rpartition(":")[2])):
        page.get_by_text("The gateway does not know this job").wait_for()
        page.get_by_text("Connected").wait_for()
    page.context.close()


def test_a_hidden_page_asks_for_nothing(opened: Any) -> None:
    page = opened("", WIDE)
    page.get_by_role("link", name="orders").wait_for()
    page.evaluate(
        "Object.defineProperty(document, 'hidden', { value: true, configurable: true });"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.get_by_text("Paused").wait_for()
    page.wait_for_timeout(300)
    before = len(page.asked)
    page.wait_for_timeout(2500)
    assert len(page.asked) == before
    page.evaluate("delete document.hidden; document.dispatchEvent(new Event('visibilitychange'))")
    page.get_by_text("Connected").wait_for()
    assert len(page.asked) > before


@pytest.mark.spark
def test_a_ttl_of_a_running_job_takes_effect(spark: object, browser: Any, tmp_path: Path) -> None:
    jobs = Jobs(savepoint_dir=str(tmp_path / "savepoints"))
    (tmp_path / "savepoints").write_text("in the way")
    options = {"pipeline.max-parallelism": "1", "pipeline.name": "counts", "table.exec.state.ttl": "1 h"}
    env = TableEnvironment.create({**options, "execution.checkpointing.dir": str(tmp_path / "my cp")}, jobs=jobs)
    env.execute_sql(
        "CREATE TABLE src (k INT) WITH ('connector' = 'datagen', 'rows-per-second' = '20', "
        "'fields.k.min' = '1', 'fields.k.max' = '1000000')"
    )
    env.execute_sql("CREATE TABLE snk (k INT, n BIGINT) WITH ('connector' = 'blackhole')")
    job = env.execute_sql("INSERT INTO snk SELECT k, COUNT(*) FROM src GROUP BY k").job
    assert job is not None
    with served(app_of(jobs)) as address:
        page = Opened(browser, f"{address}/#/jobs/{jobs.entries()[0].id}", WIDE)
        page.set_default_timeout(180_000)
        page.get_by_text(re.compile("Counted after micro-batch")).wait_for()
        row = page.get_by_role("row", name=re.compile("^group-aggregate"))
        live = int(row.get_by_role("cell").nth(2).inner_text().replace(",", ""))
        assert live > 0
        time.sleep(2)
        page.tab_to("TTL of group-aggregate")
        page.press("Enter")
        page.keyboard.type("1 s")
        page.press("Enter")
        page.get_by_role("button", name="Set 1 s").wait_for()
        said = page.locator(".what-if").inner_text()
        freed = re.search(r"([\d,]+) rows? \(.*\) would expire at once", said)
        assert freed is not None and int(freed[1].replace(",", "")) > 0, said
        assert page.focused == "Set 1 s"
        page.press("Enter")
        page.get_by_role("row", name=re.compile("1 h \u2192 1 s ada since micro-batch")).wait_for()
        page.get_by_role("button", name="TTL of group-aggregate: 1 s. Edit").wait_for()
        cells = "document.querySelector('table[aria-label=States] tbody tr').children"
        page.wait_for_function(f"() => parseInt({cells}[8].textContent) > 0 && {cells}[2].textContent !== ''")
        assert "A TTL has changed" not in page.locator("main").inner_text(), "the rows are counted with the new TTL"
        page.get_by_role("button", name="Stop job").click()
        assert page.focused == "Keep it running"
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Write a savepoint").check()
        dialog.get_by_role("button", name="Stop job").click()
        dialog.get_by_text("CKPT074").first.wait_for()
        assert [text for text in page.said if "400 (Bad Request)" not in text] == []
        page.said.clear()
        assert job.is_active
        (tmp_path / "savepoints").unlink()
        dialog.get_by_role("button", name="Stop job").click()
        page.locator(".jobhead .status", has_text="Finished").wait_for()
        assert not job.is_active
        (savepoint,) = (tmp_path / "savepoints").iterdir()
        page.get_by_text(f"Stopped with the savepoint file:{savepoint}").wait_for()
        assert (savepoint / "stateplan.json").is_file()
        assert page.said == []
        assert [url for url in page.asked if not url.startswith((address, "data:"))] == []
        page.context.close()
    (state,) = read_ttls(tmp_path / "my cp").values()
    assert [(s.ttl, s.by, s.who) for s in state.settings] == [(3_600_000, "plan", ""), (1_000, "live", "ada")]
    assert json.loads((tmp_path / "my cp" / "ttl.json").read_text())["format"] == 1


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_how_far_a_job_with_bounded_input_has_come(browser: Any, tmp_path: Path) -> None:
    jobs = Jobs()
    (tmp_path / "in").mkdir()
    for n in range(1_000):
        (tmp_path / "in" / f"{n}.json").write_text(f'{{"k": {n}}}\n')
    env = TableEnvironment.create({"pipeline.name": "numbers"}, jobs=jobs)
    env.execute_sql(
        f"CREATE TABLE src (k INT) WITH ('connector' = 'filesystem', 'path' = '{tmp_path / 'in'}', 'format' = 'json', "
        "'source.max-files-per-trigger' = '1')"
    )
    env.execute_sql("CREATE TABLE snk (k INT) WITH ('connector' = 'blackhole')")
    job = env.execute_sql("INSERT INTO snk SELECT k FROM src").job
    assert job is not None
    with served(app_of(jobs)) as address:
        page = Opened(browser, f"{address}/#/jobs/{jobs.entries()[0].id}", WIDE)
        page.set_default_timeout(180_000)
        done = page.locator("dl.tiles div", has_text="Input done").locator("dd")
        done.get_by_text(re.compile(r"^\d+%, about \d+ .* left$")).wait_for()
        job.stop()
        page.locator(".jobhead .status", has_text="Canceled").wait_for()
        done.wait_for(state="hidden")
        assert page.said == []
        page.context.close()
