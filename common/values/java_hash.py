"""Java's and Scala's orders: of texts, and of entries in a hash map."""

from __future__ import annotations

from collections.abc import Iterable
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


def scala_hash_map_order(keys: Iterable[str]) -> list[str]:
    """Different ``keys`` in the order in which a ``mutable.HashMap`` of Scala 2.12 filled in this order gives them."""

    def slot(key: str) -> int:
        code = _swap_bytes((_java_hash(key) or 0) * _BYTE_SWAP_FACTOR) * _BYTE_SWAP_FACTOR & 0xFFFFFFFF
        return ((code >> 4 | code << 28) & 0xFFFFFFFF) >> 33 - len(table).bit_length()

    table: list[list[str]] = [[] for _ in range(16)]
    for count, key in enumerate(keys, 1):
        table[slot(key)].insert(0, key)
        if count > len(table) * 3 // 4:
            before, table = table, [[] for _ in range(len(table) * 2)]
            for key_of_chain in (key for chain in reversed(before) for key in chain):
                table[slot(key_of_chain)].insert(0, key_of_chain)
    return [key for chain in reversed(table) for key in chain]


_BYTE_SWAP_FACTOR = 0x9E3775CD


def _swap_bytes(value: int) -> int:
    """The lowest 32 bits with their bytes the other way round."""
    return int.from_bytes((value & 0xFFFFFFFF).to_bytes(4, "big"), "little")
