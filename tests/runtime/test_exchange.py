"""Blobs on their way through Spark: two columns, and nothing lost."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.exchange import BLOB_SCHEMA, Blob, blob_batch, blobs_of, decode, encode

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
BLOBS = st.builds(Blob, INT, INT, st.text(max_size=300), LONG, LONG, st.binary(max_size=200))


@given(st.lists(st.lists(BLOBS, max_size=5), max_size=3))
def test_blobs_arrive_as_they_were_sent(sent: list[list[Blob]]) -> None:
    batches = [blob_batch(blobs) for blobs in sent]
    assert list(blobs_of(batches)) == [blob for blobs in sent for blob in blobs]
    assert all([f"{f.name} {f.type}" for f in b.schema] == ["slot int32", "blob binary"] for b in batches)
    assert BLOB_SCHEMA == "slot INT, blob BINARY"


def test_a_frame_of_changes_arrives_whole() -> None:
    frame = pl.DataFrame({"kind": [0, 3], "k": ["a", None], "v": [1.5, None]}, schema_overrides={"kind": pl.Int8})
    [blob] = blobs_of([blob_batch([Blob(7, 1, "0001\0" + "0" * 8, 1_700_000_000_000, frame.height, encode(frame))])])
    assert (blob.slot, blob.input, blob.rows) == (7, 1, 2)
    assert decode([blob.data]).equals(frame)
