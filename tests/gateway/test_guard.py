"""Hostile requests to a gateway that runs: it refuses them in the form of Flink's errors, and goes on."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from stateplan.gateway.service.limits import Limits
from stateplan.gateway.service.service import SqlGatewayService
from tests.support.gateway_here import Answer, GatewayHere, gateway_here
from tests.support.gateway_transcript import TRANSCRIPT, exchanges
from tests.support.hostile_requests import Hostile, Hostility

SEED, REQUESTS = 7, 2000
SECURITY = ("x-content-type-options", "x-frame-options", "cross-origin-resource-policy", "cache-control")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayHere]:
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "root").mkdir()
    limits = Limits(idle_timeout=0, max_sessions=5000)
    service = SqlGatewayService(limits, folder=folder / "state", roots=[str(folder / "root")], keep_unknown=True)
    with gateway_here(service) as found:
        yield found


class Handles:
    """A session and an operation that there are, until somebody closes them."""

    def __init__(self, gateway: GatewayHere) -> None:
        self._gateway = gateway
        self._left = 0
        self._found = ("", "")

    def __call__(self) -> tuple[str, str]:
        if self._left == 0:
            session = self._gateway.session()
            submitted = self._gateway.http.post(f"/v4/sessions/{session}/statements", json={"statement": "SHOW JOBS"})
            self._found, self._left = (session, str(submitted.json()["operationHandle"])), 20
        self._left -= 1
        return self._found


def test_requests_of_a_client_changed_at_random(gateway: GatewayHere) -> None:
    if TRANSCRIPT is None:
        pytest.skip("no reference material: set STATEPLAN_SHARED to its folder")
    rng = random.Random(SEED)
    recorded = exchanges()
    hostility = Hostility(rng, Handles(gateway), gateway.headers)
    sent = [hostility.of(rng.choice(recorded)) for _ in range(REQUESTS)]
    with ThreadPoolExecutor(8) as several:
        answers = several.map(lambda one: gateway.ask(one.data, 0.2 if one.cut else None), sent)
        for number, (one, answer) in enumerate(zip(sent, answers, strict=True)):
            why = why_wrong(one, answer)
            assert not why, f"request {number}, {one.kinds}: {why}\n{one.data[:3000]!r}\n{answer}"
    assert gateway.complaints() == []
    gateway.assert_well()


def why_wrong(sent: Hostile, answer: Answer) -> str:
    """What is wrong with an answer; empty when nothing is."""
    if answer.status == 0:
        return "" if sent.cut else "no answer"
    for name in SECURITY:
        if len(answer.header(name)) != 1:
            return f"{name}: {answer.header(name)}"
    if sent.method == "HEAD" or answer.status == 304:
        return ""
    if b"Traceback" in answer.body or b'.py"' in answer.body or b"BUG000" in answer.body:
        return "a bug shows"
    if answer.status in (200, 201):
        return ""
    try:
        errors = answer.json()["errors"]
    except (ValueError, KeyError, TypeError):
        return "no error as Flink's gateway gives them"
    if not errors or not all(isinstance(text, str) for text in errors):
        return "no error as Flink's gateway gives them"
    coded = re.search(r"\[[A-Z]+\d{3}\] ", errors[-1])
    if answer.status >= 500:
        return "" if coded and answer.status in (500, 501) else "an error of the gateway without a code"
    return "" if 400 <= answer.status < 500 else f"status {answer.status}"


def test_headers_of_every_answer(gateway: GatewayHere) -> None:
    for path in ("/", "/page/files/page.css", "/page/files/nothing.js", "/page/jobs", "/v4/info", "/v4/nothing"):
        answer = gateway.request("GET", path)
        assert [len(answer.header(name)) for name in SECURITY] == [1] * len(SECURITY), path
    for path in ("/sessions", "/v4/sessions", "/v1/sessions/", "/sessions/"):  # the last one is in Flink's pages
        assert gateway.request("POST", path, body=b"{}").status == 200
