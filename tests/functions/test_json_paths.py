"""JSON paths next to Flink 2.3: what its JSON_QUERY answers for each path over each document.

``json_paths.jsonl.xz`` has the documents in its first line. Each other line is a path with, for each document, the text
of an array with what it leads to: strict, and lax. An error is null. False is for what Flink fails on, because a class
is missing in its distribution: filters that ask whether there is a name, that look at an array or an object, or that
have a list.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from stateplan.common.types import STRING
from stateplan.functions.builder import make_call
from stateplan.functions.literals import string_literal, symbol
from stateplan.functions.rex import InputRef
from stateplan.runtime.transforms.calc import CalcTransform

Answers = list[str | bool | None]

_WRAPPED = [
    symbol("JSON_QUERY_WRAPPER", "WITH_UNCONDITIONAL_ARRAY"),
    symbol("JSON_QUERY_ON_EMPTY_OR_ERROR", "NULL"),
    symbol("JSON_QUERY_ON_EMPTY_OR_ERROR", "NULL"),
]
_FAULTS = {
    "$..[0][?(!(@[0] >= $.n[0]))]": "Flink takes all items of an array behind .. and an index that a step follows",
    "$..[-2].*": "Flink takes no item of an array behind .. and an index from the end that a step follows",
    "$..*.*": "Flink leaves out what is in objects in arrays",
    "$.n.sum($.m[*])": "Flink changes the path of a parameter while it evaluates it",
    "$.length($.n)": "Flink takes the length of the document where the parameter leads to one value",
}
"""Paths for which Flink's answer is not right, or depends on the documents before."""

_DOCUMENT = (
    '{"book": [{"title": "A", "price": 8, "tags": ["a", "b"]}, {"title": "B", "price": 12, "isbn": "1", "tags": []}, '
    '{"title": "C", "price": 20, "isbn": null}], "best": ["B", "C"]}'
)
_TITLES = {
    "@.isbn": ["B", "C"],
    "!@.isbn": ["A"],
    "!(@.isbn)": ["A"],
    "@.isbn && @.price > 15": ["C"],
    "@.isbn == null": ["C"],
    "@.title in ['A', 'C']": ["A", "C"],
    '@.title nin ["A", "C"]': ["B"],
    "@.title in $.best": ["B", "C"],
    "@.price in [8, 20]": ["A", "C"],
    "@.tags size 2": ["A"],
    "@.tags empty true": ["B"],
    "@.tags empty false": ["A"],
    "@.tags contains 'b'": ["A"],
    "@.tags subsetof ['a', 'b', 'c']": ["A", "B"],
    "@.tags anyof ['b', 'x']": ["A"],
    "@.tags noneof ['b', 'x']": ["B"],
    "@.tags == ['a', 'b']": ["A"],
    "@.tags =~ /B/i": ["A"],
    "@['title'] =~ /[AB]/": ["A", "B"],
    "@.tags[?(@ == 'a')]": ["A", "B"],
    "@.price > 10 || @.tags contains 'a'": ["A", "B", "C"],
}


@cache
def _answers() -> tuple[list[str], list[tuple[str, Answers, Answers]]]:
    lines = lzma.decompress(Path(__file__).with_name("json_paths.jsonl.xz").read_bytes()).decode().splitlines()
    return json.loads(lines[0]), [tuple(json.loads(line)) for line in lines[1:]]


def _here(paths: list[str], documents: list[str]) -> list[list[str | None]]:
    calls = [make_call("JSON_QUERY", [InputRef(STRING, 0), string_literal(p), *_WRAPPED]) for p in paths]
    made = CalcTransform(tuple(calls))(pl.DataFrame({"c0": documents}), 0)
    return [made[f"c{i}"].to_list() for i in range(len(paths))]


@pytest.mark.parametrize("mode", ["", "lax "])
def test_paths_lead_to_what_they_lead_to_in_flink(mode: str) -> None:
    documents, answers = _answers()
    assert len(documents) >= 8 and len(answers) >= 1000
    wanted = [(path, lax if mode else strict) for path, strict, lax in answers if path not in _FAULTS]
    found = _here([mode + path for path, _ in wanted], documents)
    wrong = [
        (path, document[:40], flink, here)
        for (path, each), made in zip(wanted, found, strict=True)
        for document, flink, here in zip(documents, each, made, strict=True)
        if flink is not False and flink != here
    ]
    assert wrong == []


def test_what_is_said_to_differ_differs() -> None:
    documents, answers = _answers()
    known = {path: (strict, lax) for path, strict, lax in answers}
    for path in _FAULTS:
        assert _here([path, f"lax {path}"], documents) != list(known[path]), path


def test_filters_that_flink_fails_on() -> None:
    found = _here([f"$.book[?({condition})].title" for condition in _TITLES], [_DOCUMENT])
    assert [json.loads(str(each[0]))[0] for each in found] == list(_TITLES.values())
