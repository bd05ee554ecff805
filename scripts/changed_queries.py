"""Changed queries on Spark: each new query takes over the state of the old one, and writes what it would have written.

    python -m scripts.changed_queries [--kafka | --ends | --replay [--ttl '5 s']] [--parallelism 2 3] [--seed 1]
        [--together 30] [--only TEXT]

The pairs are those of ``docs/plans/plan-diff.md`` and of ``tests/support/changes``. The old queries read a half of the
input and stop. The new ones get their state from that checkpoint, with ``plan evolve``, and read the other half. Then
they have to write what they write where they have read the first half themselves. Pairs with other options of a table
are left out: beside the table as it is, they are a source that begins. With ``--ttl``, so are pairs with a longer TTL,
as expired rows stay expired.

Exit code 1 when a pair differs.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.harness import run
from stateplan.common.errors import StateplanError
from tests.support.changes import MORE, ROWS
from tests.support.changes.running import Change, differences, settings_of, side_of
from tests.support.kafka import Kafka


def main(
    kafka: Annotated[bool, typer.Option("--kafka", help="read topics, not files")] = False,
    ends: Annotated[bool, typer.Option("--ends", help="let the input end with each half, and event time")] = False,
    replay: Annotated[bool, typer.Option("--replay", help="play the input back; it ends, too")] = False,
    ttl: Annotated[str, typer.Option(help="of all states, with --replay")] = "0 ms",
    parallelism: Annotated[tuple[int, int], typer.Option(help="of the old job and of the new one")] = (2, 3),
    seed: Annotated[int, typer.Option(help="of the rows")] = 1,
    together: Annotated[int, typer.Option(help="pairs in a job")] = 30,
    only: Annotated[str, typer.Option(help="pairs whose name contains this")] = "",
) -> int:
    """Runs the pairs, those with the same settings together."""
    omitted_hints = ("OPTIONS(",) if ttl == "0 ms" else ("OPTIONS(", "STATE_TTL(")
    pairs = {
        name: row[:2]
        for name, row in (ROWS | MORE).items()
        if only in name and not any(hint in row[1] for hint in omitted_hints)
    }
    groups: dict[tuple[str, str], list[str]] = {}
    for name, (before, after) in pairs.items():
        groups.setdefault((settings_of(before), settings_of(after)), []).append(name)
    wrong: dict[str, str] = {}
    number = 0
    with ExitStack() as stack:
        broker: Kafka | None = None
        if kafka:
            broker = Kafka(Path(stack.enter_context(tempfile.TemporaryDirectory())))
            broker.start()
            stack.callback(broker.stop)
        make = partial(
            Change, seed=seed, kafka=broker, ends=ends, replays=replay, options={"table.exec.state.ttl": ttl}
        )
        for names in groups.values():
            for at in range(0, len(names), together):
                chunk = names[at : at + together]
                number += len(chunk)
                wrong |= _differences(chunk, pairs, make, parallelism)
                print(f"{number} of {len(pairs)} pairs, {len(wrong)} wrong", flush=True)
    for name, reason in wrong.items():
        print(f"{name}\n    {reason}\n    {pairs[name][0]}\n    {pairs[name][1]}")
    return int(bool(wrong))


def _differences(
    names: Sequence[str],
    pairs: Mapping[str, tuple[str, ...]],
    make: Callable[[Path], Change],
    parallelism: tuple[int, int],
) -> dict[str, str]:
    """What is wrong, by pair. Where a job of several pairs fails, each half of them has jobs of its own."""
    before, after = (side_of({name: pairs[name][place] for name in names}) for place in (0, 1))
    with tempfile.TemporaryDirectory() as folder:
        try:
            return differences(make(Path(folder)), before, after, parallelism)
        except (StateplanError, AssertionError) as error:
            if len(names) == 1:
                return {names[0]: str(error)}
    wrong: dict[str, str] = {}
    for half in (names[: len(names) // 2], names[len(names) // 2 :]):
        wrong |= _differences(half, pairs, make, parallelism)
    return wrong


if __name__ == "__main__":
    run(main, __doc__)
