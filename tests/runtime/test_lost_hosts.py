"""Hosts of a cluster that do not answer: when their executors are given up, and when not."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from stateplan.runtime.spark import hosts
from stateplan.runtime.spark.hosts import Silence, answering


def heard(silence: Silence, *rounds: str) -> list[str]:
    """What is gone after each round; a round has the hosts that answer, then those that do not: ``ab.c``."""
    found = []
    for text in rounds:
        here, _, away = text.partition(".")
        found.append("".join(sorted(silence.silent_hosts(here + away, here))))
    return found


def test_a_host_is_gone_when_it_is_silent_so_many_times_in_a_row() -> None:
    assert heard(Silence(3), "ab", "a.b", "a.b", "a.b", "a.b") == ["", "", "", "b", "b"]
    assert heard(Silence(3), "ab", "a.b", "a.b", "ab", "a.b", "a.b", "a.b") == ["", "", "", "", "", "", "b"]
    assert heard(Silence(1), "a", ".a") == ["", "a"]


def test_a_host_that_the_driver_never_reached_is_not_counted() -> None:
    assert heard(Silence(2), "a.b", "a.b", "a.b", "ab", "a.b", "a.b") == ["", "", "", "", "", "b"]


def test_where_no_host_answers_the_network_of_the_driver_is_at_fault() -> None:
    assert heard(Silence(2), "ab", ".ab", ".ab", ".ab", "ab", ".ab") == [""] * 6
    assert heard(Silence(2), "ab", ".ab", ".ab", "a.b") == ["", "", "", "b"]


def test_a_host_that_comes_back_with_new_executors_is_watched_anew() -> None:
    assert heard(Silence(2), "ab", "a.b", "a.b", "a", "a.b", "ab", "a.b") == ["", "", "b", "", "", "", ""]


def test_a_setting_of_the_user_decides_for_its_family() -> None:
    made = hosts.settings(())
    assert {"spark.shuffle.io.connectionTimeout", "spark.locality.wait.node"} <= made.keys()
    assert hosts.settings({"spark.network.timeout"}) == {"spark.locality.wait.node": "0s"}
    assert "spark.locality.wait.node" not in hosts.settings({"spark.locality.wait"})
    assert hosts.settings({"spark.network.timeout", "spark.locality.wait"}) == {}


@pytest.fixture
def stopped() -> Iterator[tuple[str, int]]:
    """Where a program listens that takes no connection and reads nothing, as one that a garbage collection has
    stopped."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()


@pytest.fixture
def away() -> Iterator[tuple[str, int]]:
    """An address from which nothing comes back: more want to connect to it than the system lets wait."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as stack:
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(server.getsockname())
        yield server.getsockname()


def test_the_system_answers_for_programs_that_are_stopped_or_gone(
    stopped: tuple[str, int], away: tuple[str, int]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        closed = free.getsockname()
    began = time.monotonic()
    found = answering({"stopped": stopped, "closed": closed, "away": away}, 0.3)
    assert found == {"stopped", "closed"}
    assert 0.25 < time.monotonic() - began < 5
    assert answering({"stopped": stopped}, 30) == {"stopped"}
    assert answering({}, 30) == set()


class _Cluster:
    """Executors by host, and which are given up."""

    def __init__(self, places: dict[str, tuple[str, hosts.Address]]) -> None:
        self.left = places
        self.lost: list[tuple[str, str, str]] = []
        self.rounds = 0

    def has_ended(self) -> bool:
        self.rounds += 1
        return self.rounds > 10

    def places(self) -> dict[str, tuple[str, hosts.Address]]:
        if self.rounds in (2, 6):
            raise OSError("too many open files")
        return dict(self.left)

    def give_up(self, executor: str, host: str, said: str) -> None:
        self.lost.append((executor, host, said))
        del self.left[executor]


def test_the_executors_of_a_host_are_given_up_together(
    stopped: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = _Cluster({"0": ("h1", stopped), "1": ("h2", ("127.0.0.9", 9)), "2": ("h2", ("127.0.0.9", 9))})
    monkeypatch.setattr(hosts, "answering", lambda places, _: set(places) - ({"h2"} if made.rounds > 2 else set()))
    hosts._watch(made, 0.02, 3)  # type: ignore[arg-type]
    assert [(executor, host) for executor, host, _ in made.lost] == [("1", "h2"), ("2", "h2")]
    assert made.lost[0][2] == "the host h2 has not answered for 0.06 s"
    assert set(made.left) == {"0"}
