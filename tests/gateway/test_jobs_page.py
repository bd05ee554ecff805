"""The page of a gateway over HTTP: what it shows of jobs by their checkpoints, what it asks of them and refuses."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import polars as pl
import pytest
from starlette.applications import Starlette

from stateplan.gateway.page import service
from stateplan.gateway.page.job_snapshot import JobSnapshot, error_json, lines
from stateplan.gateway.page.service import FRESH_SECONDS, JobsPage
from stateplan.gateway.rest.jobs_api import POLICY, routes
from stateplan.plans.document import PlanDocument
from stateplan.runtime.audit import RECORD, record_of
from stateplan.runtime.checkpoint.live_ttl import read_ttls
from stateplan.runtime.checkpoint.locks import Holder
from stateplan.runtime.completion_forecast import Forecast
from stateplan.runtime.job import Progress
from stateplan.runtime.metrics.log import FOLDER, MetricsLog
from stateplan.runtime.metrics.view import JobView
from stateplan.session.jobs import JobEntry, JobRecord, Jobs, PlanChange
from tests.gateway.gateway_page import ENDED, HEAD, Asked, served
from tests.support.job_records import JOIN, PLAN, info, job_checkpoint, record

ASSETS = Path(service.__file__).parent / "assets"

FAILED = "[DATA301] CAST failed: 'abc' is not a valid BIGINT\n  --> orders.json, line 2"


@pytest.fixture
def jobs(tmp_path: Path) -> Jobs:
    found = Jobs()
    done = JobEntry("a" * 32, "orders", "INSERT INTO snk SELECT 1", 1_000, None, ENDED, "FINISHED")
    done.checkpoint, done.plan = job_checkpoint(tmp_path / "cp", 40), PLAN.read_text()
    failed = JobEntry("b" * 32, "<b>broken</b>", "INSERT INTO snk SELECT 2", 2_000, None, ENDED, "FAILED", FAILED)
    for entry in (done, failed):
        found._entries[entry.id] = entry
    return found


@pytest.fixture
def asked(jobs: Jobs) -> Iterator[Asked]:
    notes: list[dict[str, Any]] = []
    page = JobsPage(jobs, lambda action, who, **facts: notes.append({"action": action, "who": who, **facts}))
    with served(Starlette(routes=routes(page, lambda request: "ada"))) as address:
        yield Asked(address, notes)


JOB = f"/page/jobs/{'a' * 32}"


def test_the_list(asked: Asked) -> None:
    status, found = asked.get("/page/jobs")
    assert status == 200
    failed, done = sorted(found["jobs"], key=lambda job: job["started"], reverse=True)
    assert (done["name"], done["status"], done["ended"], done["error"]) == ("orders", "FINISHED", ENDED, None)
    assert (failed["error"]["code"], failed["error"]["text"]) == ("DATA301", FAILED)
    assert failed["error"]["remedy"] and failed["error"]["cause"] and failed["error"]["title"]


def test_rows_that_expired_and_were_needed(asked: Asked, jobs: Jobs) -> None:
    folder = jobs.find("a" * 32).checkpoint
    assert folder is not None
    log = MetricsLog(folder / FOLDER)
    last = record(40)
    operators = {**last.operators, JOIN: {**last.operators[JOIN], "needed_rows": 25.0, "needed_rows.0": 25.0}}
    log.begin(info())
    log.append(replace(last, operators=operators))
    for batch in (1, 2):
        rows = [
            {
                "uid": JOIN, "table": "leftState", "slot": 0, "use": "joined", "row": f'{{"id":{n}}}',
                "accessed_at": 1, "expired_at": 2, "needed_at": batch, "input": 1, "fraction": 0.005,
            }
            for n in range(15)
        ]  # fmt: skip
        record_of(folder).add(batch, pl.DataFrame(rows, schema=dict(RECORD)))
    found = asked.get(JOB)[1]
    assert next(o for o in found["operators"] if o["id"] == 5)["totals"]["needed_rows.0"] == 25
    assert len(found["lostRows"]) == 20
    assert found["lostRows"][0] == {
        "state": "join.left", "row": '{"id":14}', "expired": 2, "needed": 2, "by": None, "oneIn": 200
    }  # fmt: skip


def test_a_job_by_its_checkpoint(asked: Asked) -> None:
    status, found = asked.get(JOB)
    assert status == 200
    assert (found["running"], found["editable"], found["batches"], found["batch"]["batch"]) == (False, True, 40, 39)
    join = next(o for o in found["operators"] if o["id"] == 5)
    left, right = join["state"]
    assert [left["selector"], right["selector"], right["ttl"], right["asked"]] == [
        "join.left",
        "join.right",
        "1 h",
        None,
    ]
    assert (left["storedRows"], left["bytes"], join["totals"]["expired_rows.1"]) == (1039, 310_000, 160)
    assert "lostRows" not in found, "the job has no audit"
    history = found["history"]
    assert len(history["batch"]) == 40 and history["rowsIn"][-1] == 100 and history["rowsOut"][-1] == 150
    assert (history["storedRows"][-1], history["bytes"][-1], history["ms"][-1]) == (1059, 310_700, 500)


def test_a_job_whose_plan_changes_says_how_far_that_is(asked: Asked, jobs: Jobs) -> None:
    entry = jobs.find("a" * 32)
    assert asked.get(JOB)[1]["change"] is None
    entry.change = PlanChange("making the state of join[5] from history", Progress(rows_in=1200))
    change = {"stage": entry.change.stage, "rows": 1200, "share": None, "secondsLeft": None}
    assert next(job for job in asked.get("/page/jobs")[1]["jobs"] if job["id"] == entry.id)["change"] == change
    entry.change = replace(entry.change, progress=Progress(rows_in=1500, forecast=Forecast(0.25, 7.5, None)))
    found = next(job for job in asked.get("/page/jobs")[1]["jobs"] if job["id"] == entry.id)
    assert found["change"] == {**change, "rows": 1500, "share": 0.25, "secondsLeft": 7.5}
    entry.change = PlanChange("starting the new plan")
    assert JobSnapshot(entry).summary()["change"] == {**change, "stage": "starting the new plan", "rows": None}


def test_a_job_that_another_one_has_replaced_names_it(asked: Asked, jobs: Jobs) -> None:
    replaced, successor = jobs.find("a" * 32), jobs.find("b" * 32)
    assert asked.get(JOB)[1]["successor"] is None
    successor.record, successor.checkpoint = JobRecord("orders", "ALTER JOB", replaces=replaced.id), Path("/data/ck-2")
    found = {job["id"]: job["successor"] for job in asked.get("/page/jobs")[1]["jobs"]}
    assert found == {replaced.id: {"id": successor.id, "checkpoint": "/data/ck-2"}, successor.id: None}


def test_a_job_that_continues_has_its_state_before_its_first_micro_batch(jobs: Jobs) -> None:
    entry = jobs.find("a" * 32)
    view = JobView(info(first_batch=40, started=9_000_000), 9_000_100, Holder(1, "host", 9_000_000))
    entry.job = cast("Any", SimpleNamespace(view=view, progress=SimpleNamespace(forecast=None)))
    found = JobSnapshot(entry).figures()
    join = next(o for o in found["operators"] if o["id"] == 5)
    assert (found["batch"]["batch"], found["stateBytes"], join["state"][0]["storedRows"]) == (39, 310_700, 1039)
    assert (found["batches"], found["rowsIn"], found["history"]["batch"][-1]) == (0, 0, 39)


def test_rates_are_on_every_line_where_they_can_be_told(jobs: Jobs) -> None:
    view = JobSnapshot(jobs.find("a" * 32)).view()
    assert view is not None
    found = lines(PlanDocument.load(str(PLAN)), view.operators())
    rates = {node: line["rate"] for node, line in found.items()}
    left, right, out = 63.2, 42.1, 158.0  # 60, 40 and 150 rows a second over nine and a half seconds of ten records
    graph = PlanDocument.load(str(PLAN)).graph
    into = [source.id for source in graph.inputs(5)]
    assert [rates[i] for i in into] == [left, right]
    assert rates[5] == out
    assert found[5]["mark"] == 60_000
    assert set(rates) == {node.id for node in graph.nodes} - {7}


def test_the_plan_is_drawn_with_the_ttls_of_now(asked: Asked, tmp_path: Path) -> None:
    before = asked.get(JOB)[1]["plan"]
    drawn = asked.get(f"{JOB}/plan")[1]
    assert drawn["key"] == before and all("right: 1 h" in drawn["svg"][way] for way in ("across", "down"))
    assert {o["id"] for o in drawn["operators"]} == {1, 2, 3, 4, 5, 6, 7}
    assert asked.post(f"{JOB}/ttl", state="join.right", ttl="2 h")[0] == 200
    assert "right: 1 h" in asked.get(f"{JOB}/plan")[1]["svg"]["across"], "no micro-batch has taken it in"
    file = tmp_path / "cp" / "ttl.json"
    data = json.loads(file.read_text())
    (state,) = data["states"]
    state["settings"] = [{"ttl": state["asked"]["ttl"], "since": 40, "by": "live", "at": 5, "who": "ada"}]
    state["asked"] = None
    for seal in ("written", "sum"):
        del data[seal]
    file.write_text(json.dumps(data))
    assert "right: 2 h" in asked.get(f"{JOB}/plan")[1]["svg"]["across"]
    diff = asked.get(f"{JOB}/diff")[1]
    assert diff["verdict"] == "ttl-only" and "ttl 1 h -> ttl 2 h" in diff["text"]
    time.sleep(FRESH_SECONDS)
    assert asked.get(JOB)[1]["plan"] != before


def test_a_ttl_is_asked_for_in_somebodys_name(asked: Asked, tmp_path: Path) -> None:
    status, tried = asked.post(f"{JOB}/ttl", state="join.right", ttl="2 h", dryRun=True)
    assert (status, tried["written"], tried["running"]) == (200, False, False)
    assert not (tmp_path / "cp" / "ttl.json").exists() and asked.notes == []
    assert tried["changes"][0]["text"] == "1 h -> 2 h, from the next micro-batch on"
    status, done = asked.post(f"{JOB}/ttl", state="join.right", ttl="2 h")
    assert (status, done["written"]) == (200, True)
    (state,) = read_ttls(tmp_path / "cp").values()
    assert state.asked is not None and (state.asked.ttl, state.asked.who) == (7_200_000, "ada")
    assert asked.notes == [
        {"action": "set ttl", "who": "ada", "job": "a" * 32, "state": "join[5].right", "old": "1 h", "new": "2 h"}
    ]
    found = next(o for o in asked.get(JOB)[1]["operators"] if o["id"] == 5)["state"][1]
    assert (found["ttl"], found["asked"]["ttl"], found["asked"]["who"]) == ("1 h", "2 h", "ada")


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        (f"{JOB}/ttl", {"state": "jion.right", "ttl": "2 h"}, 400, "PLAN101"),
        (f"{JOB}/ttl", {"state": "join.right", "ttl": "2 hx"}, 400, "PLAN055"),
        (f"{JOB}/what-if", {"state": "join.right", "ttl": "2 h"}, 400, "CKPT005"),
        (f"{JOB}/stop", {}, 400, "RUN052"),
        (f"/page/jobs/{'c' * 32}/stop", {}, 404, "RUN060"),
        (f"/page/jobs/{'b' * 32}/ttl", {"state": "join.right", "ttl": "2 h"}, 404, "RUN056"),
        (f"{JOB}/ttl", {"state": "join.right"}, 400, None),
        (f"{JOB}/ttl", {"state": "join.right", "ttl": ["2 h"]}, 400, None),
        (f"{JOB}/ttl", {"state": "x" * 9000, "ttl": "2 h"}, 413, None),
    ],
)
def test_what_cannot_be_is_refused(
    asked: Asked, tmp_path: Path, path: str, body: dict[str, object], status: int, code: str | None
) -> None:
    found = asked.post(path, **body)
    assert (found[0], found[1]["error"].get("code")) == (status, code), found
    assert found[1]["error"]["text"]
    assert asked.notes == [] and not (tmp_path / "cp" / "ttl.json").exists()


def test_what_changes_something_needs_a_header_that_other_pages_cannot_send(asked: Asked) -> None:
    for action in ("stop", "inspection", "what-if", "ttl"):
        answer = httpx.post(f"{asked.address}{JOB}/{action}", json={"state": "join.right", "ttl": "2 h"})
        assert answer.status_code == 403
    assert httpx.get(f"{asked.address}{JOB}/stop", headers=HEAD).status_code == 405
    for body in (b"[]", b"{", b"[" * 4000):
        assert httpx.post(f"{asked.address}{JOB}/ttl", content=body, headers=HEAD).status_code == 400


def test_what_has_not_changed_is_not_sent_again(asked: Asked) -> None:
    first = httpx.get(asked.address + JOB)
    again = httpx.get(asked.address + JOB, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    asked.post(f"{JOB}/ttl", state="join.right", ttl="2 h")
    assert httpx.get(asked.address + JOB, headers={"if-none-match": first.headers["etag"]}).status_code == 200


def test_the_files_of_the_page(asked: Asked) -> None:
    page = httpx.get(asked.address + "/")
    assert page.headers["content-security-policy"] == POLICY
    names = re.findall(r'(?:src|href)="(/[^"]*)"', page.text)
    assert len(names) == 4
    seen = set(names)
    while names:
        answer = httpx.get(asked.address + names.pop())
        assert answer.status_code == 200
        more = {f"/page/files/{name}" for name in re.findall(r'from "\./([^"]*)"', answer.text)} - seen
        seen |= more
        names += more
    scripts = {f"/page/files/{path.name}" for path in ASSETS.glob("*.js")}
    assert scripts and scripts <= seen, "the page needs each of its scripts"
    for name in ("nothing.js", "..%2fservice.py", "%2e%2e/service.py"):
        assert httpx.get(f"{asked.address}/page/files/{name}").status_code == 404


def test_a_count_that_fails_says_why(asked: Asked) -> None:
    assert asked.post(f"{JOB}/inspection")[0] == 200
    until = time.monotonic() + 60
    while (found := asked.get(JOB)[1]["inspection"])["busy"] and time.monotonic() < until:
        time.sleep(0.05)
    assert found["error"]["code"] == "CKPT005"


def test_errors_without_a_code() -> None:
    assert error_json(None) is None
    assert error_json("out of luck") == {"text": "out of luck"}
    assert error_json("[WHAT123] out of luck") == {"text": "[WHAT123] out of luck"}
    found = error_json("[OPT004] catalogs of type x do not have the option y")
    assert found is not None and found["remedy"].endswith("See catalogs.")
