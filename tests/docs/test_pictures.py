"""The pictures of the documentation: readable text, on light and on dark ground, and nothing outside of the frame."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scripts.pictures import PICTURES, TEXT

SVG = "{http://www.w3.org/2000/svg}"
LETTER = 0.56
"""The mean width of a letter, as a share of its height."""


def test_the_text_is_large_enough() -> None:
    assert TEXT >= 11


@pytest.mark.parametrize(("path", "draw"), PICTURES.items(), ids=lambda value: getattr(value, "stem", ""))
def test_a_picture(path: Path, draw: Callable[[], str]) -> None:
    root = ElementTree.fromstring(draw())
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    style = root.findtext(f"{SVG}style") or ""
    assert "prefers-color-scheme: dark" in style and "font-size" not in style
    assert root.findtext(f"{SVG}title") and root.findtext(f"{SVG}desc")
    for text in root.iter(f"{SVG}text"):
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib["text-anchor"]]
        size = len(text.text or "") * TEXT * LETTER
        left = float(text.attrib["x"]) - share * size
        assert left >= 0 and left + size <= width, text.text
        assert TEXT <= float(text.attrib["y"]) <= height, text.text


@pytest.mark.parametrize(("path", "draw"), PICTURES.items(), ids=lambda value: getattr(value, "stem", ""))
def test_no_two_texts_overlap(path: Path, draw: Callable[[], str]) -> None:
    root = ElementTree.fromstring(draw())
    lines: dict[str, list[tuple[float, float, str]]] = {}
    for text in root.iter(f"{SVG}text"):
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[text.attrib["text-anchor"]]
        size = len(text.text or "") * TEXT * LETTER
        left = float(text.attrib["x"]) - share * size
        lines.setdefault(text.attrib["y"], []).append((left, left + size, text.text or ""))
    for texts in lines.values():
        for (_, end, one), (start, _, other) in zip(sorted(texts), sorted(texts)[1:], strict=False):
            assert end <= start, (one, other)
