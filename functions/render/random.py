"""UUID, RAND and RAND_INTEGER.

The values come from the micro-batch and the place of a row in it: one that runs again gives the same rows the same
values, as far as its input comes in the same pieces. In Flink, rows that are read again after a failure get others.
"""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import polars as pl

from stateplan.functions.render.base import RANDOM, Renderer, renders
from stateplan.functions.rex import Call, Literal, Rex

_STEP = np.uint64(0x9E3779B97F4A7C15)
_GROUPS = ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))
_VERSION, _VARIANT = (0xFFFFFFFFFFFF0FFF, 0x4000), (0x3FFFFFFFFFFFFFFF, 0x8000000000000000)
"""What a random UUID keeps of its two halves, and what is set in them (RFC 9562, version 4)."""


def random_columns(height: int, count: int, origin: str) -> list[pl.Series]:
    """``count`` columns of ``height`` random words (UInt64), always the same for one ``origin``."""
    rows = np.arange(1, height + 1, dtype=np.uint64)
    out = []
    for n in range(count):
        digest = hashlib.blake2b(f"{origin}\0{n}".encode(), digest_size=8).digest()
        out.append(pl.Series(f"{RANDOM}{n}", _mixed(rows * _STEP + np.frombuffer(digest, np.uint64))))
    return out


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """SplitMix64."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


@renders("UUID")
def uuid(r: Renderer, call: Call) -> pl.Expr:
    return pl.struct(r.random().alias("a"), r.random().alias("b")).map_batches(_uuids, return_dtype=pl.String())


def _uuids(words: pl.Series) -> pl.Series:
    halves = [words.struct.field(name).to_numpy() for name in "ab"]
    both = [h & np.uint64(m) | np.uint64(s) for h, (m, s) in zip(halves, (_VERSION, _VARIANT), strict=True)]
    digits = np.frombuffer(np.stack(both, axis=1).astype(">u8").tobytes().hex().encode(), "S1").reshape(-1, 32)
    text = np.full((len(digits), 36), b"-", "S1")
    for n, (start, end) in enumerate(_GROUPS):
        text[:, start + n : end + n] = digits[:, start:end]
    return pl.Series(words.name, text.view("S36").ravel().astype(str), pl.String())


@renders("RAND")
def rand(r: Renderer, call: Call) -> pl.Expr:
    return _fraction(r, call.operands[0] if call.operands else None)


@renders("RAND_INTEGER")
def rand_integer(r: Renderer, call: Call) -> pl.Expr:
    *seed, limit = call.operands
    bound = r.expr(limit).cast(pl.Int64)
    r.fail_where(bound <= 0, "RAND_INTEGER", "the bound {} is not positive", bound)
    return (_fraction(r, seed[0] if seed else None) * bound).floor().cast(pl.Int64).cast(pl.Int32, wrap_numerical=True)


def _fraction(r: Renderer, seed: Rex | None) -> pl.Expr:
    """A number from 0 up to 1. Calls with the same constant seed give the same numbers."""
    seed_text = str(seed.value) if isinstance(seed, Literal) else None
    number = (r.random(seed_text) // 2048).cast(pl.Float64) * 2.0**-53
    return number if seed is None else pl.when(r.expr(seed).is_not_null()).then(number)
