"""Signals are held back while Spark is asked something."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from stateplan.runtime.interrupts import between_calls


class Terminated(KeyboardInterrupt):
    pass


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    def broken(*_: object) -> None:
        raise RuntimeError("the handler of SIGINT calls Spark")

    def terminate(_: int, __: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGINT, broken), signal.signal(signal.SIGTERM, terminate)
    yield
    assert signal.getsignal(signal.SIGINT) is broken
    assert signal.getsignal(signal.SIGTERM) is terminate
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGTERM, before[1])


@pytest.mark.parametrize(("sent", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_a_signal_waits_for_the_block(sent: signal.Signals, raised: type[KeyboardInterrupt]) -> None:
    answers = []
    with pytest.raises(KeyboardInterrupt) as caught, between_calls():
        os.kill(os.getpid(), sent)
        answers.append("whole")
    assert caught.type is raised
    assert answers == ["whole"]


def test_a_signal_comes_before_what_the_block_raises() -> None:
    with pytest.raises(KeyboardInterrupt), between_calls():
        os.kill(os.getpid(), signal.SIGINT)
        raise ValueError


def test_without_a_signal() -> None:
    with between_calls():
        pass
    with pytest.raises(ValueError, match="no"), between_calls():
        raise ValueError("no")


def test_a_process_without_a_handler_is_left_as_it_is() -> None:
    held = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    try:
        with between_calls():
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, held)


def test_another_thread_holds_nothing_back() -> None:
    seen: list[object] = []

    def work() -> None:
        with between_calls():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGINT)]


def test_an_interrupt_while_handlers_are_restored_leaves_none_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    interrupt, install = signal.getsignal(signal.SIGINT), signal.signal

    def restore(number: int, handler: object) -> object:
        out = install(number, handler)  # type: ignore[arg-type]
        if handler is interrupt:
            os.kill(os.getpid(), signal.SIGINT)
        return out

    monkeypatch.setattr(signal, "signal", restore)
    with pytest.raises(RuntimeError, match="the handler of SIGINT"), between_calls():
        pass
