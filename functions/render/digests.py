"""How digests, encodings, URLs and HASH_CODE run."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import quote, unquote_to_bytes

import numpy as np
import polars as pl

from stateplan.common.errors import RunError
from stateplan.common.types import MAX_LENGTH, LogicalType
from stateplan.common.values.codecs import codec
from stateplan.functions.render.base import Renderer, renders, renders_by_values
from stateplan.functions.render.decimals import scale_of, unscaled
from stateplan.functions.render.rowwise import rowwise
from stateplan.functions.rex import Call, Literal

_BYTES = LogicalType("VARBINARY", length=MAX_LENGTH)


def _digest(algorithm: str, values: Sequence[pl.Expr]) -> pl.Expr:
    def one(text: str, length: int | None = None) -> str | None:
        is_supported = length is None or length in _SHA2
        return hashlib.new(f"{algorithm}{length or ''}", text.encode()).hexdigest() if is_supported else None

    return rowwise(one, values, pl.String, "MD5, SHA1, SHA2, ...")


_SHA2 = (224, 256, 384, 512)
renders_by_values(
    {name: lambda text, name=name: _digest(name, [text]) for name in ("MD5", "SHA1", *(f"SHA{n}" for n in _SHA2))}
)


@renders("SHA2")
def sha2(r: Renderer, call: Call) -> pl.Expr:
    text, bits = r.args(call)
    is_unknown = text.is_not_null() & ~bits.is_in(_SHA2)
    r.fail_where(is_unknown, "SHA2", "{} is not a length of SHA-2 (224, 256, 384, 512)", bits)
    return _digest("SHA", [text, bits])


def _from_base64(text: str) -> str | None:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4 if "=" not in text else 0), validate=True).decode(
            "utf-8", "replace"
        )
    except (binascii.Error, ValueError):
        return None


@renders("FROM_BASE64")
def from_base64(r: Renderer, call: Call) -> pl.Expr:
    text = r.expr(call.operands[0])
    data = text.str.decode("base64", strict=False)
    slow = rowwise(_from_base64, [pl.when(data.is_null()).then(text)], pl.String, "FROM_BASE64")
    result = pl.coalesce(codec(_BYTES).sql(data, r.time_zone), slow)
    return r.strict(result, "FROM_BASE64", "{} is not Base64", text)


_CHARSETS: dict[str, tuple[str, bytes]] = {
    "UTF-8": ("utf-8", b""),
    "UTF8": ("utf-8", b""),
    "US-ASCII": ("ascii", b""),
    "ASCII": ("ascii", b""),
    "ISO-8859-1": ("latin-1", b""),
    "UTF-16BE": ("utf-16-be", b""),
    "UTF-16LE": ("utf-16-le", b""),
    "UTF-16": ("utf-16-be", b"\xfe\xff"),
}


def _charset(name: str) -> tuple[str, bytes]:
    charset = _CHARSETS.get(name.upper())
    if charset is None:
        raise RunError("RUN303.character_set", name=name, expected=", ".join(_CHARSETS))
    return charset


def _is_utf8(call: Call) -> bool:
    charset = call.operands[1]
    return isinstance(charset, Literal) and str(charset.value).upper() in ("UTF-8", "UTF8")


@renders("ENCODE")
def encode(r: Renderer, call: Call) -> pl.Expr:
    def one(text: str, charset: str) -> bytes:
        encoding, mark = _charset(charset)
        return mark + text.encode(encoding, "replace") if text else b""

    if _is_utf8(call):
        return r.expr(call.operands[0]).cast(pl.Binary)
    return rowwise(one, r.args(call), pl.Binary, "ENCODE, DECODE")


@renders("DECODE")
def decode(r: Renderer, call: Call) -> pl.Expr:
    def one(data: bytes, charset: str) -> str:
        encoding, mark = _charset(charset)
        if mark and data[:2] == b"\xff\xfe":
            encoding, data = "utf-16-le", data[2:]
        elif mark and data.startswith(mark):
            data = data[2:]
        return data.decode(encoding, "replace")

    if _is_utf8(call):
        return codec(_BYTES).sql(r.expr(call.operands[0]), r.time_zone)
    return rowwise(one, r.args(call), pl.String, "ENCODE, DECODE")


def _url_encode(text: str) -> str:
    return quote(text, safe="* ").replace(" ", "+").replace("~", "%7E")


def _url_decode(text: str) -> str | None:
    pieces = text.split("%")
    if any(len(p) < 2 or not all(c in "0123456789abcdefABCDEF" for c in p[:2]) for p in pieces[1:]):
        return None
    return unquote_to_bytes(text.replace("+", " ")).decode("utf-8", "replace")


_SCHEMES = frozenset({"http", "https", "ftp", "file", "jar", "mailto"})
"""Those that ``java.net.URL`` knows."""


def _parse_url(url: str, part: str, key: str | None = None) -> str | None:
    scheme, colon, rest = url.partition(":")
    if not colon or scheme.lower() not in _SCHEMES:
        return None
    rest, hash_mark, reference = rest.partition("#")
    authority = None
    if rest.startswith("//"):
        end = min((i for i in (rest.find(c, 2) for c in "/?") if i >= 0), default=len(rest))
        authority, rest = rest[2:end], rest[end:]
    path, question, query = rest.partition("?")
    user, at, host = (authority or "").rpartition("@")
    host_name = host[: host.find("]") + 1] if host.startswith("[") else host.partition(":")[0]
    parts = {
        "HOST": host_name if authority else "",
        "PATH": path,
        "QUERY": query if question else None,
        "REF": reference if hash_mark else None,
        "PROTOCOL": scheme.lower(),
        "FILE": path + question + query,
        "AUTHORITY": authority or None,
        "USERINFO": user if at else None,
    }
    if key is None:
        return parts.get(part)
    if part != "QUERY" or not question:
        return None
    return next((p.partition("=")[2] for p in query.split("&") if p.partition("=")[0] == key), None)


_URLS = "PARSE_URL, URL_ENCODE, URL_DECODE"
renders_by_values(
    {
        "TO_BASE64": lambda text: text.cast(pl.Binary).bin.encode("base64"),
        "URL_ENCODE": lambda text: rowwise(_url_encode, [text], pl.String, _URLS),
        "URL_DECODE": lambda text: rowwise(_url_decode, [text], pl.String, _URLS),
        "PARSE_URL": lambda *operands: rowwise(_parse_url, operands, pl.String, _URLS),
    }
)


Array = np.ndarray[Any, np.dtype[Any]]


def java_string_hash(texts: pl.Series) -> Array:
    """``String.hashCode`` (over UTF-16 units) of each text as int32; 0 for NULL."""
    texts = texts.fill_null("")
    plain = (texts.str.len_bytes() == texts.str.len_chars()).to_numpy()
    array = texts.to_arrow(compat_level=pl.CompatLevel.oldest())
    _, offsets, content = array.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[array.offset : array.offset + len(texts) + 1]
    data = np.frombuffer(content, dtype=np.uint8) if content is not None else np.zeros(0, dtype=np.uint8)
    hashes = _polynomial(data, ends[:-1], np.where(plain, np.diff(ends), 0))
    if not plain.all():
        rows = np.flatnonzero(~plain)
        others = texts.gather(rows).to_list()
        units = [np.frombuffer(t.encode("utf-16-le", "surrogatepass"), dtype="<u2") for t in others]
        lengths = np.array([len(u) for u in units], dtype=np.int64)
        hashes[rows] = _polynomial(np.concatenate(units), np.concatenate(([0], np.cumsum(lengths)[:-1])), lengths)
    return hashes.view(np.int32)


def _polynomial(data: Array, starts: Array, lengths: Array) -> Array:
    """h = 31 * h + unit over each stretch of ``data``, as uint32."""
    hashes = np.zeros(len(lengths), dtype=np.uint32)
    rows = np.flatnonzero(lengths > 0)
    position = 0
    while len(rows):
        hashes[rows] = hashes[rows] * np.uint32(31) + data[starts[rows] + position]
        position += 1
        rows = rows[lengths[rows] > position]
    return hashes


def _fold(bits: pl.Expr) -> pl.Expr:
    """The two halves of a 64-bit integer, exclusive-or'ed."""
    high = (bits // pl.lit(2**32, dtype=pl.Int64)).cast(pl.Int32, wrap_numerical=True)
    return bits.cast(pl.Int32, wrap_numerical=True).xor(high)


def _decimal_hash(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """``BigDecimal.hashCode``: over the words of the unscaled value, then its sign and scale."""
    value, word = unscaled(e, t), pl.lit(2**32, dtype=pl.Int128)
    size, h = value.abs(), pl.lit(0, dtype=pl.Int64)
    for shift in (96, 64, 32, 0):
        h = (h * 31 + (size // pl.lit(2**shift, dtype=pl.Int128) % word).cast(pl.Int64)) % 2**32
    signed_hash = pl.when(value < 0).then(-h).otherwise(h)
    return (signed_hash * 31 + scale_of(t)).cast(pl.Int32, wrap_numerical=True)


def _text_hash(e: pl.Expr, t: LogicalType) -> pl.Expr:
    """Without its sign, as in Flink."""

    def run(s: pl.Series) -> pl.Series:
        hashes = pl.Series(np.abs(java_string_hash(s)), dtype=pl.Int32)
        return hashes if s.null_count() == 0 else pl.select(pl.when(s.is_not_null()).then(hashes)).to_series()

    return e.map_batches(run, return_dtype=pl.Int32, is_elementwise=True)


_HASHES: dict[str, Callable[[pl.Expr, LogicalType], pl.Expr]] = {
    "BOOLEAN": lambda e, t: pl.when(e).then(pl.lit(1231, dtype=pl.Int32)).when(~e).then(pl.lit(1237, dtype=pl.Int32)),
    **dict.fromkeys(("TINYINT", "SMALLINT", "INTEGER"), lambda e, t: e.cast(pl.Int32)),
    "BIGINT": lambda e, t: _fold(e),
    "FLOAT": lambda e, t: e.reinterpret(dtype=pl.Int32),
    "DOUBLE": lambda e, t: _fold(e.reinterpret(dtype=pl.Int64)),
    "DECIMAL": _decimal_hash,
    "CHAR": _text_hash,
    "VARCHAR": _text_hash,
    "DATE": lambda e, t: e.to_physical(),
    **dict.fromkeys(
        ("TIMESTAMP_WITHOUT_TIME_ZONE", "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "TIME_WITHOUT_TIME_ZONE"),
        lambda e, t: _fold(e.to_physical().cast(pl.Int64, wrap_numerical=True)),
    ),
}


@renders("HASH_CODE")
def hash_code(r: Renderer, call: Call) -> pl.Expr:
    operand = call.operands[0]
    hashing = _HASHES.get(operand.type.root)
    if hashing is None:
        raise RunError("RUN301", what=f"HASH_CODE of {operand.type.summary()}")
    return hashing(r.expr(operand), operand.type)
