"""State from a history that begins later than its table says so, and gets no corrections."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateplan.common.errors import CheckpointError
from stateplan.session.restart import ACCEPT, OUTPUT, Evolution
from tests.support.evolving import Tables, replayed, sink

COUNTED = "INSERT INTO out1 SELECT product, COUNT(*), 0, 0 FROM orders {} GROUP BY product"
SUMMED = "INSERT INTO out1 SELECT product, SUM(amount), 0, 0 FROM orders {} GROUP BY product"
LATE = "/*+ OPTIONS('backfill.from' = '2026-01-31 08:00:00') */"
EARLIEST = "/*+ OPTIONS('backfill.from' = 'Earliest') */"


def evolution(folder: Path, old: str, new: str, **options: str) -> Evolution:
    tables = Tables(folder, replayed("orders", "product STRING, amount BIGINT") + sink())
    tables.arrive("orders", [])
    return Evolution.between(tables.plan(old).text, tables.plan(new), {ACCEPT: "none", **options})


def test_the_reasons_say_from_when_on_history_is_read(tmp_path: Path) -> None:
    late = evolution(tmp_path, COUNTED.format(""), SUMMED.format(LATE))
    (aggregate,) = (o for o in late.diff.operators if o.stateful)
    assert aggregate.verdict == "backfill"
    assert aggregate.reasons[-1] == (
        "without the rows of default_catalog.default_database.orders before 2026-01-31 08:00:00 ('backfill.from')"
    )
    assert list(late.continuation.begins.values()) == [1769846400000]
    earliest = evolution(tmp_path, COUNTED.format(""), SUMMED.format(EARLIEST))
    assert not earliest.continuation.begins
    assert not any("without" in reason for o in earliest.diff.operators for reason in o.reasons)


def test_carried_state_does_not_depend_on_the_begin_of_the_history(tmp_path: Path) -> None:
    same = evolution(tmp_path, COUNTED.format(""), COUNTED.format(LATE))
    (aggregate,) = (o for o in same.diff.operators if o.stateful)
    assert aggregate.harmless and len(same.continuation.sources) == 1


@pytest.mark.parametrize("hints", [("", LATE), (LATE, "")])
def test_a_part_of_the_history_is_not_enough_for_corrections(hints: tuple[str, str], tmp_path: Path) -> None:
    part = evolution(tmp_path, COUNTED.format(hints[0]), SUMMED.format(hints[1]))
    with pytest.raises(CheckpointError, match="orders' cannot get corrections") as error:
        part.with_corrections({OUTPUT: "corrections"})
    assert error.value.code == "CKPT055"
