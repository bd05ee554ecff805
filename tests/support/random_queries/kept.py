"""What Flink answered to a sample of the random queries: their plans, and the rows that their jobs left."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

FILE = Path(__file__).resolve().parents[2] / "planner" / "random_answers.json.xz"


@dataclass(frozen=True)
class KeptAnswer:
    """Flink's answer to one query.

    Attributes:
        digest: of the query that was asked (``RandomQuery.digest``).
        plan: as Flink wrote it, with ``${DIR}`` for the folder of the input.
        rows: what its job left, folded (``Case.folded``).
    """

    digest: str
    plan: str
    rows: list[str]


@cache
def kept_answers() -> Mapping[int, KeptAnswer]:
    """By seed."""
    found = json.loads(lzma.decompress(FILE.read_bytes()))
    return {int(seed): KeptAnswer(**answer) for seed, answer in found.items()}


def keep(answers: Mapping[int, KeptAnswer], file: Path) -> None:
    """Writes answers to a file such as :data:`FILE`."""
    data = {str(seed): asdict(answers[seed]) for seed in sorted(answers)}
    file.write_bytes(lzma.compress(json.dumps(data, indent=0).encode(), preset=9))
