"""The key hash is part of the state format: these values must never change."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.hashing import SLOT_CYCLE, hash_rows, key_groups, slot_label


def test_frozen_values() -> None:
    frame = pl.DataFrame(
        {
            "i": [0, 1, -1, None],
            "s": ["", "abc", "abcdefghi", None],
            "f": [0.0, 1.5, float("nan"), None],
            "d": pl.Series(["1.50", "2.00", "0.01", None]).cast(pl.Decimal(10, 2)),
        }
    )
    assert {name: hash_rows(frame, [name]).tolist() for name in frame.columns} == FROZEN
    assert hash_rows(frame, ["i", "s"]).tolist() == FROZEN_PAIR
    assert hash_rows(frame, []).tolist() == [2685821657736338717] * 4


FROZEN: dict[str, list[int]] = {
    "i": [11800389442521598120, 764616526951919187, 4457164190795096279, 2412239735523424989],
    "s": [11800389442521598120, 12068080751971891050, 5049285965074534355, 2412239735523424989],
    "f": [11800389442521598120, 10226601962029403111, 421817337239545917, 2412239735523424989],
    "d": [12639015169882196076, 16903907293106606873, 14080162518315959415, 2412239735523424989],
}
FROZEN_PAIR = [5736347982800505544, 6782200467960696462, 11222937964496406942, 8773856711753321946]


@given(st.lists(st.one_of(st.none(), st.text(max_size=40)), min_size=1, max_size=30))
def test_text_hash_depends_on_the_value_alone(values: list[str | None]) -> None:
    frame = pl.DataFrame({"s": values}, schema={"s": pl.String})
    whole = hash_rows(frame, ["s"])
    alone = [hash_rows(frame.slice(i, 1), ["s"])[0] for i in range(len(values))]
    assert whole.tolist() == alone
    for i, a in enumerate(values):
        for j, b in enumerate(values):
            assert (whole[i] == whole[j]) == (a == b)


def test_long_texts_are_told_apart() -> None:
    values = ["x" * 256, "x" * 257, "x" * 300, "x" * 299 + "y", "short"]
    hashes = hash_rows(pl.DataFrame({"s": values}), ["s"])
    assert len(set(hashes.tolist())) == len(values)


def test_equal_numbers_of_other_widths_hash_alike() -> None:
    a = hash_rows(pl.DataFrame({"x": pl.Series([7], dtype=pl.Int32)}), ["x"])
    b = hash_rows(pl.DataFrame({"x": pl.Series([7], dtype=pl.Int64)}), ["x"])
    assert a == b


def test_negative_zero_and_nan() -> None:
    hashes = hash_rows(pl.DataFrame({"x": [0.0, -0.0, float("nan"), -float("nan")]}), ["x"])
    assert hashes[0] == hashes[1]
    assert hashes[2] == hashes[3]


@pytest.mark.parametrize("groups", [1, 2, 16, 128])
def test_key_groups_follow_the_order_of_hashes(groups: int) -> None:
    hashes = np.sort(hash_rows(pl.DataFrame({"x": np.arange(20_000)}), ["x"]))
    owner = key_groups(hashes, groups)
    assert (np.diff(owner.astype(int)) >= 0).all()
    counts = np.bincount(owner, minlength=groups)
    assert counts.min() > 0.7 * 20_000 / groups


@pytest.mark.parametrize("partitions", [2, 3, 4, 5, 6, 7, 8, 10, 12, 16])
def test_slot_labels_are_distinct(partitions: int) -> None:
    labels = [slot_label(s) for s in range(4 * partitions)]
    assert len(set(labels)) == len(labels)


def test_slots_beyond_one_cycle_stay_distinct() -> None:
    labels = {slot_label(s) for s in range(SLOT_CYCLE - 2, SLOT_CYCLE + 3)}
    assert len(labels) == 5
