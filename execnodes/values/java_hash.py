"""Java's orders: of texts, and of entries in a ``java.util.HashMap``."""

from __future__ import annotations

from typing import Any


def _java_hash(value: Any) -> int | None:
    """``hashCode`` as an unsigned 32-bit number; None for what is not worked out here."""
    if value is None:
        return 0
    if isinstance(value, bool):
        return 1231 if value else 1237
    if isinstance(value, int):
        bits = value & (1 << 64) - 1
        return (bits ^ bits >> 32) & 0xFFFFFFFF if not -(1 << 31) <= value < 1 << 31 else value & 0xFFFFFFFF
    if isinstance(value, str):
        result = 0
        data = value.encode("utf-16-le", "surrogatepass")
        for low, high in zip(data[::2], data[1::2], strict=True):
            result = (31 * result + (high << 8 | low)) & 0xFFFFFFFF
        return result
    return None


def java_order(text: str) -> bytes:
    """What texts are sorted by in the order of ``String.compareTo``."""
    return text.encode("utf-16-be", "surrogatepass")


def hash_map_order(keys: list[Any], long_keys: bool = False) -> list[int]:
    """Positions of ``keys`` in the order in which a ``java.util.HashMap`` filled in this order gives them.

    Args:
        keys: text, whole numbers or truth values; other keys keep their order.
        long_keys: whether whole numbers are 64-bit ones (negative ones hash differently).
    """
    hashes = []
    for key in keys:
        code = _java_hash(key)
        if code is None:
            return list(range(len(keys)))
        if long_keys and isinstance(key, int) and key < 0:
            bits = key & (1 << 64) - 1
            code = (bits ^ bits >> 32) & 0xFFFFFFFF
        hashes.append(code ^ code >> 16)
    size = 16
    while len(keys) > size * 3 // 4:
        size *= 2
    return sorted(range(len(keys)), key=lambda i: hashes[i] & (size - 1))
