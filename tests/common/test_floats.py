"""DOUBLE and FLOAT as text: Java 17's in print, CAST, JSON, CSV and plans."""

from __future__ import annotations

import json
import math
import re
from functools import cache

import polars as pl
import pytest

from stateplan.common.types import STRING, parse_type
from stateplan.common.values.floats import double_text, float_text, floats_text
from stateplan.connectors.print import format_rows
from stateplan.functions.casting import cast_rex
from stateplan.functions.rex import InputRef
from stateplan.plans import jackson
from stateplan.runtime.transforms.calc import CalcTransform
from tests.common.java_floats import FROZEN, double_of, edge_bits, float_of, java_texts, java_version, random_bits
from tests.connectors.connector_tables import make_encoder

TYPES = ("DOUBLE", "FLOAT")
SOURCES = ("frozen", "live")


@cache
def answers(source: str, kind: str) -> tuple[pl.Series, list[str]]:
    """A column of numbers, and Java's texts of them."""
    if source == "frozen":
        lines = FROZEN.read_text().splitlines()
        pairs = [(bits, text) for bits, _, text in (line.partition(" ") for line in lines)]
    else:
        if java_version() >= 19:
            pytest.skip("Java 19 and later print other digits than Flink's Java 17")
        asked = random_bits(16, 20_000)
        pairs = list(zip(asked, java_texts(asked), strict=True))
    digits, read, dtype = (16, double_of, pl.Float64) if kind == "DOUBLE" else (8, float_of, pl.Float32)
    chosen = [(read(bits), text) for bits, text in pairs if len(bits) == digits]
    return pl.Series("c0", [v for v, _ in chosen], dtype=dtype), [t for _, t in chosen]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("source", SOURCES)
def test_columns_and_single_values(source: str, kind: str) -> None:
    series, texts = answers(source, kind)
    assert len(texts) >= 1000
    assert floats_text(series).to_list() == texts
    one = double_text if kind == "DOUBLE" else float_text
    assert [one(v) for v in series.to_list()] == texts


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("source", SOURCES)
def test_print_cast_json_and_csv_write_what_java_writes(source: str, kind: str) -> None:
    series, texts = answers(source, kind)
    declared, frame = parse_type(kind), series.to_frame()
    assert format_rows(frame, [declared]) == [f"+I[{t}]" for t in texts]
    cast = CalcTransform((cast_rex(InputRef(declared, 0), STRING),))(frame, 0)
    assert cast["c0"].to_list() == texts
    for fmt, written in (("csv", texts), ("json", [_json(t) for t in texts])):
        encoder = make_encoder({"connector": "filesystem", "path": "/tmp", "format": fmt}, [("a", declared)])
        assert encoder.encode(frame).decode().splitlines() == written


def _json(text: str) -> str:
    return f'{{"a":{text}}}' if re.fullmatch(r"[-0-9.E]+", text) else f'{{"a":"{text}"}}'


@pytest.mark.parametrize("kind", TYPES)
def test_elements_of_lists_too(kind: str) -> None:
    series, texts = answers("frozen", kind)
    declared, frame = parse_type(f"ARRAY<{kind}>"), series.implode().alias("c0").to_frame()
    assert format_rows(frame, [declared]) == [f"+I[[{', '.join(texts)}]]"]
    cast = CalcTransform((cast_rex(InputRef(declared, 0), STRING),))(frame, 0)
    assert cast.item() == f"[{', '.join(texts)}]"
    encoder = make_encoder({"connector": "filesystem", "path": "/tmp", "format": "json"}, [("a", declared)])
    items = ",".join(_json(t)[5:-1] for t in texts)
    assert encoder.encode(frame).decode() == f'{{"a":[{items}]}}\n'


def test_plans_write_doubles_as_java_does() -> None:
    series, texts = answers("frozen", "DOUBLE")
    finite = [(v, t) for v, t in zip(series.to_list(), texts, strict=True) if math.isfinite(v)]
    assert jackson.dumps([v for v, _ in finite]) == f"[ {', '.join(t for _, t in finite)} ]"
    assert json.loads(jackson.dumps([v for v, _ in finite])) == [v for v, _ in finite]


def test_null_stays_null_and_an_empty_column_is_one() -> None:
    series = pl.Series([None, 1e-7, None, 2.5, math.nan, -math.inf, -0.0], dtype=pl.Float64)
    assert floats_text(series).to_list() == [None, "1.0E-7", None, "2.5", "NaN", "-Infinity", "-0.0"]
    assert floats_text(pl.Series([None, None], dtype=pl.Float32)).to_list() == [None, None]
    assert floats_text(pl.Series([], dtype=pl.Float64)).dtype == pl.String


def test_frozen_texts_are_those_of_the_edges() -> None:
    assert [line.partition(" ")[0] for line in FROZEN.read_text().splitlines()] == edge_bits()
