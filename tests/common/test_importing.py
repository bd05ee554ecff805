"""Garbage collection while modules load."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from stateplan.common.importing import importing


@pytest.fixture(autouse=True)
def collection() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.enable()
    yield
    (gc.enable if was_on else gc.disable)()


def test_nothing_is_collected_until_the_modules_are_there() -> None:
    with importing(), importing():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_module_that_fails_leaves_it_on() -> None:
    with pytest.raises(ImportError), importing():
        raise ImportError
    assert gc.isenabled()


def test_a_user_who_has_turned_it_off_finds_it_off() -> None:
    gc.disable()
    with importing():
        assert not gc.isenabled()
    assert not gc.isenabled()
