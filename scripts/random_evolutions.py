"""Random changes of queries that run: each new query goes on from the state of the old one, exactly, or is refused.

    python -m scripts.random_evolutions [--seed 1] [--count 500] [--show]

Every seed is a pair of queries of ``tests/support/evolutions``, and the instant at which the new one takes over. The
old one runs up to that instant, in this process and without Spark. The new one gets its state, as ``plan evolve`` would
make it, and goes on. Its state then, and all later changes, have to be those of a run of the new query from the start.

Exit code 1 when a pair differs.
"""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.harness import run
from tests.support.evolutions import outcome_of, random_pair


def main(
    seed: Annotated[int, typer.Option(help="of the first pair")] = 1,
    count: Annotated[int, typer.Option(help="number of pairs")] = 500,
    show: Annotated[bool, typer.Option("--show", help="print every pair")] = False,
) -> int:
    outcomes: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(seed, seed + count):
            pair = random_pair(number, folder)
            try:
                outcome, _, reason = outcome_of(pair, folder).partition("\n")
            except Exception as error:
                outcome, reason = "wrong", f"{type(error).__name__}: {error}"
            if show or outcome == "wrong":
                print(f"seed {number}: {outcome} {reason}\n{pair}", flush=True)
            outcomes[outcome] += 1
            if outcome == "refused":
                reasons[re.sub(r"\[[^]]*\]|\d+", "", reason.splitlines()[0])[:200]] += 1
    for title, kinds in (("pairs", outcomes), ("reasons", reasons)):
        print(f"{title}: {kinds.total()}")
        for kind, times in kinds.most_common():
            print(f"{times:6} {kind}")
    return int(bool(outcomes["wrong"]))


if __name__ == "__main__":
    run(main, __doc__)
