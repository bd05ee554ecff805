"""Flink's own test programs of the operators this project has, two of the four ways of :mod:`tests.e2e.programs`.

Half of each class run from their SQL, and the first and a quarter from Flink's plan with a restart by the migrated one.
``STATEPLAN_LONG`` and ``python -m scripts.flink_programs`` run all of them in all ways: also Flink's plan without a
migration, with and without a restart.

``tests/e2e/programs_failing.json`` lists those that do not pass, by class, name and way, each with its reason. A
listed one that passes fails here.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import shared_folder
from tests.e2e.programs import WAYS, Program, failing, programs
from tests.support.long_runs import LONG, share

_SHARED = shared_folder()
_PROGRAMS = programs(_SHARED) if _SHARED else []
_FAILING = failing()


def _tried() -> list[tuple[Program, str]]:
    """The programs with the ways in which they run."""
    if LONG:
        return [(program, way) for program in _PROGRAMS for way in program.ways]
    migrated = [program for program in _PROGRAMS if "migrated" in program.ways]
    chosen = {}
    for way, programs_of_way, one_in in (("sql", _PROGRAMS, 2), ("migrated", migrated, 4)):
        some = share(programs_of_way, one_in, lambda program: program.program_class)
        chosen[way] = [p for p in programs_of_way if p in some or f"{p.label}/{way}" in _FAILING]
    return [(program, way) for way, chosen_programs in chosen.items() for program in chosen_programs]


def _cases() -> list[object]:
    out: list[object] = []
    for program, way in _tried():
        reason = _FAILING.get(f"{program.label}/{way}")
        marks = [pytest.mark.xfail(reason=reason, strict=True)] if reason else []
        out.append(pytest.param(program, way, id=f"{program.label}/{way}", marks=marks))
    return out


@pytest.mark.parametrize(("program", "way"), _cases())
def test_rows_like_flink(program: Program, way: str, shared: Path, tmp_path: Path) -> None:
    found = WAYS[way](program, tmp_path)
    assert found == {s["name"]: program.expected(s) for s in program.spec["sinks"]}


def test_only_programs_that_exist_are_listed(shared: Path) -> None:
    labels = {f"{p.label}/{way}" for p in _PROGRAMS for way in p.ways}
    assert sorted(set(_FAILING) - labels) == []
