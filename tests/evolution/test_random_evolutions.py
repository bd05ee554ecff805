"""Random queries after random edits go on from the state of the queries before, as if they had always run.

``python -m scripts.random_evolutions`` runs any number of them.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from tests.support.evolutions import outcome_of, random_pair

SEEDS = (
    *(378, 20, 83, 42, 353, 80, 125, 113, 315, 280),
    *(16, 392, 263, 272, 317, 35, 244, 293, 312),
    *(203, 193, 222, 396, 63, 388, 147, 329, 447),
)
"""Short queries, most of them with state that is derived or rewritten."""


def test_changed_queries_go_on_as_if_they_had_always_run(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for seed in SEEDS:
        pair = random_pair(seed, tmp_path)
        try:
            outcomes[outcome_of(pair, tmp_path).partition("\n")[0]] += 1
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}\n{pair}") from error
    assert outcomes["derive"] > 15, outcomes
    assert outcomes["rewrite"] > 2, outcomes
