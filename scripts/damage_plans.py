"""Damages plans at random and puts each through what can be done with a plan: ``python -m scripts.damage_plans``.

Every file must be refused with a code, a line, a column and a JSON pointer, or be a plan that goes through everything.
Prints how many gave which code, the slowest, and of each failure how often it was seen and a small file that shows it;
the exit code is 1 when there was one.
"""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from random import Random
from typing import Annotated, Literal

import typer

from benchmarks.harness import run
from stateplan.common.readable import render
from tests.plans.damage import Damaged, damaged, originals
from tests.plans.shrink import shrink
from tests.support.plan_checks import LIMIT, Outcome, check


def main(
    count: Annotated[int, typer.Option(help="how many plans")] = 500,
    seed: Annotated[str, typer.Option(help="names the sequence of damages")] = "0",
    through: Annotated[
        Literal["load", "commands"],
        typer.Option(help="load: read, write, edit, fit to tables, translate; commands: each plan command too"),
    ] = "load",
    samples: Annotated[int, typer.Option(help="print the errors of so many plans too")] = 0,
    out: Annotated[Path | None, typer.Option(help="folder for the files that show failures")] = None,
) -> int:
    """The command; its exit code."""
    commands = through == "commands"
    start, codes, later = time.monotonic(), Counter[str](), Counter[tuple[str, str]]()
    failures: dict[str, list[tuple[int, Damaged, Outcome]]] = {}
    slow: list[tuple[float, str, str]] = []
    shown = 0
    for number in range(count):
        case = damaged(Random(f"{seed}/{number}"))
        outcome = check(case.data, case.original.text, commands)
        codes[outcome.code or "valid"] += 1
        later.update((code, command) for command, code in outcome.codes.items())
        slow.append((outcome.seconds, outcome.slowest, f"{number} {case}"))
        if outcome.failure:
            failures.setdefault(outcome.signature, []).append((number, case, outcome))
        texts = [outcome.error, *outcome.errors.values()]
        if shown < samples and any(texts):
            shown += 1
            print(f"--- {number} {case}", *filter(None, texts), sep="\n")
    _report(count, len(originals()), codes, later, slow, time.monotonic() - start)
    for signature, cases in sorted(failures.items(), key=lambda item: -len(item[1])):
        _explain(signature, cases, commands, out)
    print(f"\n{sum(map(len, failures.values()))} of {count} plans failed, with {len(failures)} kinds of failure")
    return 1 if failures else 0


def _report(
    count: int,
    plans: int,
    codes: Counter[str],
    later: Counter[tuple[str, str]],
    slow: list[tuple[float, str, str]],
    seconds: float,
) -> None:
    print(f"{count} damaged plans of {plans}, {seconds:.0f} s\n")
    print(render(("outcome", "plans"), [(code, number) for code, number in codes.most_common()]))
    if later:
        rows = [(command, code, number) for (code, command), number in later.most_common()]
        print(f"\nValid plans that something was refused for:\n{render(('by', 'code', 'plans'), rows)}")
    slowest = sorted(slow, reverse=True)[:5]
    rows = [(f"{spent:.2f}", step, what[:90]) for spent, step, what in slowest]
    print(f"\nSlowest (at most {LIMIT:.0f} s of processor time are allowed):")
    print(render(("seconds", "step", "plan"), rows))


def _explain(signature: str, cases: list[tuple[int, Damaged, Outcome]], commands: bool, folder: Path | None) -> None:
    number, case, outcome = min(cases, key=lambda one: len(one[1].data))

    def fails(data: bytes) -> bool:
        return check(data, case.original.text, commands).signature == signature

    small = shrink(case.data, fails)
    print(f"\n=== {len(cases)} times: {signature}\n{number} {case}\n{outcome.failure}")
    print(small.decode(errors="backslashreplace") if len(small) < 3000 else f"({len(small)} bytes)")
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"damaged-{number}.json").write_bytes(small)


if __name__ == "__main__":
    run(main, __doc__)
