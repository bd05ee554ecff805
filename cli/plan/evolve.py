"""``stateplan plan evolve``."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import PlanArgument, ScriptOption, SettingsOption, settings

if TYPE_CHECKING:
    from stateplan.session.evolution_preview import EvolutionPreview


class Accept(StrEnum):
    """How far a new checkpoint goes for state, mildest first."""

    DERIVE = "derive"
    BACKFILL = "backfill"
    RESET = "reset"
    UNDETERMINED = "unknown"


class Output(StrEnum):
    """What sinks get."""

    CHANGES = "changes"
    CORRECTIONS = "corrections"


DryRunOption = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only print what would become of the state of each operator, why, and what would be read. The job of the "
        "old plan may run.",
    ),
]


AcceptOption = Annotated[
    Accept | None,
    typer.Option(
        help="How far to go for state. derive: compute it from existing state, but read no history. backfill "
        "(default): also make it from the history of the inputs. reset: also let operators start empty. unknown: "
        "also where it cannot be determined."
    ),
]

OutputOption = Annotated[
    Output | None,
    typer.Option(
        "--output",
        help="What the tables of sinks get. changes (default): the changes that the new plan makes from then on. "
        "corrections: before that, the changes that turn the rows of the old plan into those of the new one. Both "
        "plans run over the history of the inputs for that.",
    ),
]


@command()
def evolve(
    console: Console,
    plan: PlanArgument,
    checkpoint: Annotated[
        str,
        typer.Option(
            "--checkpoint",
            metavar="OLD",
            help="A savepoint, or the checkpoint directory of a job that has ended. It is only read.",
        ),
    ],
    pairs: SettingsOption,
    target: Annotated[
        str | None, typer.Option("--to", metavar="NEW", help="The checkpoint directory to fill. It must be empty.")
    ] = None,
    file: ScriptOption = None,
    accept: AcceptOption = None,
    sink_output: OutputOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Make a checkpoint for a changed plan from the checkpoint of the plan before."""
    from stateplan.cli.session import Session

    options = settings(pairs)
    if accept is not None:
        options["execution.state-recovery.accept"] = accept.value
    if sink_output is not None:
        options["execution.state-recovery.output"] = sink_output.value
    if dry_run:
        _show(console, Session(console, options, file).preview_evolution(plan, checkpoint))
        return
    if target is None:
        raise typer.BadParameter("missing --to NEW (or --dry-run, which only prints what would be done)")
    options["execution.checkpointing.dir"] = target
    evolved = Session(console, options, file).evolve_plan(plan, checkpoint)
    names = ", ".join(evolved.operators) or "no operator"
    text = (
        f"{evolved.folder}: state of {names}, as after micro-batch {evolved.batch} of {checkpoint} "
        f"({evolved.seconds:.1f} s)"
    )
    console.show(
        text,
        {
            "checkpoint": str(evolved.folder),
            "micro-batch": evolved.batch,
            "operators": list(evolved.operators),
            "corrections": dict(evolved.corrected),
            "seconds": round(evolved.seconds, 3),
        },
    )


def _show(console: Console, preview: EvolutionPreview) -> None:
    """Prints a preview. Raises why the checkpoint would not be made."""
    console.show(preview.to_text(), preview.to_json())
    if preview.refusal is not None:
        raise preview.refusal
