"""Java's texts of floating-point numbers: frozen for edge values, live for random ones.

``python -m tests.common.java_floats`` writes the frozen ones anew, with the ``java`` on the path.
"""

from __future__ import annotations

import math
import random
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
FROZEN = HERE / "java_floats.txt"


def double_of(bits: str) -> float:
    return float(struct.unpack(">d", bytes.fromhex(bits))[0])


def float_of(bits: str) -> float:
    return float(struct.unpack(">f", bytes.fromhex(bits))[0])


def double_bits(value: float) -> str:
    return struct.pack(">d", value).hex()


def float_bits(value: float) -> str:
    try:
        return struct.pack(">f", value).hex()
    except OverflowError:
        return "7f800000"


def java_version() -> int:
    """The version of the ``java`` on the path: 17."""
    shown = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    found = re.search(r'version "(\d+)', shown)
    assert found, shown
    return int(found[1])


def java_texts(bits: Iterable[str]) -> list[str]:
    """``Double.toString`` of each 16 digits, ``Float.toString`` of each 8, by a Java that this starts."""
    command = ["java", str(HERE / "FloatTexts.java")]
    done = subprocess.run(command, input="\n".join(bits), capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _neighbours(bits: int, digits: int) -> Iterator[str]:
    for near in range(bits - 1, bits + 2):
        yield f"{near % (1 << 4 * digits):0{digits}x}"


def edge_bits() -> list[str]:
    """Powers of two and ten, limits, and where the form changes, each with its neighbours, of both signs."""
    out: dict[str, None] = {}
    special = [0.0, math.nan, math.inf, 1e-3, 1e7, 2e-3, 2.0**63, 2e23, 8.41e21, 2.0**53, 1.1, 0.1, 123456789.125]
    values = [*special, *(10.0**k for k in range(-323, 309)), *(7 * 10.0**k for k in range(-30, 30))]
    for value in values:
        out |= dict.fromkeys(_neighbours(int(double_bits(value), 16), 16))
        out |= dict.fromkeys(_neighbours(int(float_bits(value), 16), 8))
    out |= dict.fromkeys(f"{exponent << 52:016x}" for exponent in range(2048))
    out |= dict.fromkeys(f"{1 << power:016x}" for power in range(52))
    out |= dict.fromkeys(f"{count:016x}" for count in range(100))
    for exponent in range(256):
        out |= dict.fromkeys(_neighbours(exponent << 23, 8))
    for limit in (1 << 52, 2047 << 52):
        out |= dict.fromkeys(_neighbours(limit, 16))
    out |= dict.fromkeys(f"{count:08x}" for count in range(100))
    out |= dict.fromkeys(double_bits(-v) for v in special)
    out |= dict.fromkeys(float_bits(-v) for v in special)
    return list(out)


def random_bits(seed: int, count: int) -> list[str]:
    """Numbers of all kinds: any bits, whole numbers, decimals, subnormals."""
    pick = random.Random(seed)
    kinds = [
        lambda: f"{pick.getrandbits(64):016x}",
        lambda: double_bits(float(pick.getrandbits(pick.randint(1, 64)))),
        lambda: double_bits(pick.randint(1, 10**6) * 10.0 ** pick.randint(-30, 30)),
        lambda: double_bits(pick.uniform(-1, 1) * 10.0 ** pick.randint(-8, 28)),
        lambda: f"{pick.getrandbits(pick.randint(1, 52)):016x}",
        lambda: f"{pick.getrandbits(32):08x}",
        lambda: float_bits(float(pick.getrandbits(pick.randint(1, 64)))),
        lambda: float_bits(pick.randint(1, 10**6) * 10.0 ** pick.randint(-30, 30)),
        lambda: float_bits(pick.uniform(-1, 1) * 10.0 ** pick.randint(-8, 28)),
        lambda: f"{pick.getrandbits(pick.randint(1, 23)):08x}",
    ]
    return [kinds[i % len(kinds)]() for i in range(count)]


if __name__ == "__main__":
    assert java_version() < 19, "Java 19 and later print other digits"
    edges = edge_bits()
    FROZEN.write_text("".join(f"{bits} {text}\n" for bits, text in zip(edges, java_texts(edges), strict=True)))
