"""Blobs on their way through Spark: two columns, and nothing lost."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from stateplan.runtime.exchange import BLOB_SCHEMA, Blob, Rows, Touch, blob_batch, blobs_of, decode, encode, rows_of
from stateplan.runtime.watermarks import PartWatermark

INT = st.integers(-(2**31), 2**31 - 1)
LONG = st.integers(-(2**63), 2**63 - 1)
CONTENT = st.one_of(
    st.builds(Rows, LONG, st.binary(max_size=200)),
    st.builds(PartWatermark, INT, LONG, st.text(max_size=20), st.booleans()),
    st.just(Touch()),
)
BLOBS = st.builds(Blob, INT, INT, st.text(max_size=300), LONG, CONTENT)


@given(st.lists(st.lists(BLOBS, max_size=5), max_size=3))
def test_blobs_arrive_as_they_were_sent(sent: list[list[Blob]]) -> None:
    batches = [blob_batch(blobs) for blobs in sent]
    assert list(blobs_of(batches)) == [blob for blobs in sent for blob in blobs]
    assert all([f"{f.name} {f.type}" for f in b.schema] == ["slot int32", "blob binary"] for b in batches)
    assert BLOB_SCHEMA == "slot INT, blob BINARY"


def test_a_frame_of_changes_arrives_whole() -> None:
    frame = pl.DataFrame({"kind": [0, 3], "k": ["a", None], "v": [1.5, None]}, schema_overrides={"kind": pl.Int8})
    sent = Blob(7, 1, "0001\0" + "0" * 8, 1_700_000_000_000, Rows(frame.height, encode(frame)))
    [blob] = blobs_of([blob_batch([sent])])
    [rows] = rows_of([blob])
    assert (blob.slot, blob.input, rows.height) == (7, 1, 2)
    assert decode([rows.data]).equals(frame)
    assert blob.size == len(rows.data)
