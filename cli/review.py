"""``stateplan review``."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import InitOption, SettingsOption, extensions, format_of, settings
from stateplan.cli.plan_files import tells_new_folder
from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from stateplan.review.figures import Figures
    from stateplan.review.review import Review
    from stateplan.review.sides import Side


class ReviewFormat(StrEnum):
    """Formats of a review."""

    MARKDOWN = "markdown"
    JSON = "json"
    SARIF = "sarif"
    SVG = "svg"


class FailOn(StrEnum):
    """What a review can fail on."""

    LOST_STATE = "lost-state"
    SHORTER_TTL = "shorter-ttl"
    LINT = "lint"
    TESTS = "tests"
    ERRORS = "errors"


_BY_EXTENSION = {
    ".md": ReviewFormat.MARKDOWN,
    ".json": ReviewFormat.JSON,
    ".sarif": ReviewFormat.SARIF,
    ".svg": ReviewFormat.SVG,
}
_several = partial(typer.Option, default_factory=list, show_default=False)


@dataclass(frozen=True)
class Arguments:
    """The arguments and options of ``stateplan review``."""

    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="OLD NEW | [PATHS]",
            help="Two plans, SQL scripts or folders; OLD may be a checkpoint directory. With --base: the files and "
            "folders to review. Default: this folder.",
            default_factory=list,
            show_default=False,
        ),
    ]
    pairs: SettingsOption
    checkpoint: Annotated[
        list[str],
        _several(
            "--checkpoint",
            metavar="FOLDER",
            help="Checkpoint of a job that runs an old query: its metrics say how large its state is. Repeatable.",
        ),
    ]
    figures: Annotated[
        list[str],
        _several(
            "--figures",
            metavar="FILE",
            help="The same from a file that 'state show --format json' has written. Repeatable.",
        ),
    ]
    fail_on: Annotated[
        list[str],
        _several(
            "--fail-on",
            metavar="WHAT",
            help="Exit with code 9 for these, comma-separated: lost-state, shorter-ttl, lint, tests, errors. "
            "Repeatable.",
        ),
    ]
    targets: Annotated[
        list[str],
        _several(
            "--output",
            "-o",
            metavar="FILE",
            help="Also write the review to a file, in the format of its extension: "
            f"{extensions(_BY_EXTENSION)}. Repeatable.",
        ),
    ]
    base: Annotated[
        str | None,
        typer.Option("--base", metavar="REV", help="Compare with the commit at which this branch left a git revision."),
    ] = None
    init: InitOption = None
    tests: Annotated[bool, typer.Option("--tests/--no-tests", help="Run the test files of the new side.")] = True
    post: Annotated[
        bool,
        typer.Option("--post", help="Also write the comment on the pull request or merge request of this pipeline."),
    ] = False
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Title, for one of several reviews of the same change.")
    ] = ""
    output: Annotated[ReviewFormat, typer.Option("--format", help="Format of standard output.")] = ReviewFormat.MARKDOWN

    def check(self) -> None:
        """Raises typer.BadParameter for arguments that do not go together."""
        if self.base is None and len(self.paths) != 2:
            raise typer.BadParameter("write OLD and NEW, or --base REV and the paths to review")
        for word in self.policies:
            if word not in [*FailOn]:
                raise typer.BadParameter(f"{word!r} is none of {', '.join(FailOn)}", param_hint="--fail-on")

    @property
    def policies(self) -> list[str]:
        """What to fail on."""
        return [word.strip() for text in self.fail_on for word in text.split(",") if word.strip()]


@command()
def review(console: Console, arguments: Arguments) -> ExitCode:
    """Review a change of queries: plans, state, TTLs, lint, size of state and tests, as one comment."""
    from stateplan.review.programs import to_json
    from stateplan.review.review import review as review_change

    arguments.check()
    targets = [(target, _format(target)) for target in arguments.targets]
    options = settings(arguments.pairs)
    figures = _figures(arguments, options)
    with _sides(arguments) as (old, new, names, notes):
        outcome = review_change(old, new, options, figures, runs_tests=arguments.tests, notes=notes)
        outcome = replace(outcome, old=names[0], new=names[1])
        for target, file_format in targets:
            with tells_new_folder(console, target):
                _write(target, _text(outcome, file_format, arguments.name))
        if arguments.post:
            _post(console, _text(outcome, ReviewFormat.MARKDOWN, arguments.name))
        is_json = arguments.output is ReviewFormat.JSON
        text = "" if is_json else _text(outcome, arguments.output, arguments.name)
        console.show(text, to_json(outcome) if is_json else {})
    return ExitCode.FINDINGS if outcome.fails(arguments.policies) else ExitCode.OK


def _format(target: str) -> ReviewFormat:
    file_format = format_of(None, target, _BY_EXTENSION)
    return ReviewFormat.MARKDOWN if file_format is None else file_format


def _figures(arguments: Arguments, options: Mapping[str, str]) -> Sequence[Figures]:
    from pathlib import Path

    from stateplan.review.figures import of_checkpoint, of_report
    from stateplan.review.sides import is_checkpoint

    folders = list(arguments.checkpoint)
    if arguments.base is None and is_checkpoint(Path(arguments.paths[0])):
        folders.append(arguments.paths[0])
    return [
        *(of_checkpoint(folder, options) for folder in dict.fromkeys(folders)),
        *(of_report(path) for path in arguments.figures),
    ]


@contextmanager
def _sides(arguments: Arguments) -> Iterator[tuple[Side, Side, tuple[str, str], Sequence[str]]]:
    """The sides, what they are called, and notes."""
    from stateplan.review.revisions import checkout
    from stateplan.review.sides import below, require_paths, two_sides

    if arguments.base is None:
        old, new = arguments.paths
        yield (*two_sides(old, new, arguments.init), (old, new), ())
        return
    paths = arguments.paths or ["."]
    with checkout(arguments.base) as revision:
        before, now = below(paths, revision.folder, arguments.init), below(paths, None, arguments.init)
        require_paths(paths, revision.folder)
        notes = (
            []
            if revision.has_left
            else [f"where this branch left {revision.name} is unknown; compared with its newest commit"]
        )
        yield before, now, (f"{revision.name} ({revision.commit[:10]})", "working tree"), notes


def _post(console: Console, text: str) -> None:
    """Writes the comment. A host that refuses it does not end the command: the review itself counts."""
    import os

    from stateplan.common.errors import StateplanError
    from stateplan.review.posting import discussion, post

    try:
        target = discussion(os.environ)
        if target is None:
            console.note("this pipeline is not for a pull request or merge request, so there is no comment")
        else:
            console.note(f"wrote the comment {post(target, text)}")
    except StateplanError as error:
        console.warning(str(error))


def _text(outcome: Review, output: ReviewFormat, name: str) -> str:
    from stateplan.review.drawing import to_svg
    from stateplan.review.markdown import to_markdown
    from stateplan.review.programs import to_json, to_sarif

    if output is ReviewFormat.MARKDOWN:
        return to_markdown(outcome, name)
    if output is ReviewFormat.SVG:
        return to_svg(outcome)
    data = to_json(outcome) if output is ReviewFormat.JSON else to_sarif(outcome)
    indent = None if output is ReviewFormat.JSON else 2
    return json.dumps(data, ensure_ascii=False, default=str, indent=indent) + "\n"


def _write(target: str, text: str) -> None:
    from stateplan.plans.render.output import write_beside

    write_beside(None, target, text)
