"""``stateplan test``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import SettingsOption, settings

if TYPE_CHECKING:
    from stateplan.testing.suite import FileOutcome, Selection

_several = partial(typer.Argument, default_factory=lambda: ["."], show_default=False)


@dataclass(frozen=True)
class Arguments:
    """The arguments and options of ``stateplan test``."""

    pairs: SettingsOption
    paths: Annotated[
        list[str], _several(metavar="[PATHS]", help="Test files, and folders with test files. Default: this folder.")
    ]
    select: Annotated[
        str, typer.Option("--select", "-k", metavar="TEXT", help="Only tests with this text in file or title.")
    ] = ""
    update: Annotated[bool, typer.Option("--update", help="Write the actual rows into the files, as expectations.")] = (
        False
    )
    processes: Annotated[int, typer.Option("-j", metavar="N", min=1, help="Run the files in N processes.")] = 1
    junit_xml: Annotated[
        str | None, typer.Option("--junit-xml", metavar="FILE", help="Also write the results as JUnit XML.")
    ] = None


@command()
def test(console: Console, arguments: Arguments) -> ExitCode:
    """Run tests of streaming queries, without Spark."""
    from stateplan.testing.reader import find_files
    from stateplan.testing.reporting import junit_xml, summary
    from stateplan.testing.suite import Selection, run_suite

    files = find_files(arguments.paths)
    selection = Selection(settings(arguments.pairs), arguments.select, explains=not arguments.update)
    report = run_suite(files, selection, arguments.processes, partial(_tell, console))
    if arguments.junit_xml is not None:
        _write(arguments.junit_xml, junit_xml(report))
    if arguments.update:
        return _update(console, report.files, selection)
    console.note(summary(report))
    return ExitCode.FAILED if report.failed else ExitCode.OK


def _tell(console: Console, result: FileOutcome) -> None:
    """Prints what became of the tests of a file."""
    from stateplan.testing.reporting import file_json, file_text

    if result.outcomes or result.error is not None:
        console.show(file_text(result), file_json(result))


def _write(path: str, text: str) -> None:
    """Writes a report. Raises OptionError OPT402."""
    from pathlib import Path

    Path(path).write_text(text, "utf-8")


def _update(console: Console, results: list[FileOutcome], selection: Selection) -> ExitCode:
    """Writes expectations, and runs the changed files again."""
    from stateplan.testing.suite import run_file
    from stateplan.testing.updating import update_file

    failed = False
    for result in results:
        count = 0 if result.error is not None else update_file(result)
        if count:
            console.note(f"{result.file}: {count} {'expectation' if count == 1 else 'expectations'} written")
            result = run_file(result.file, selection)
        failed |= result.error is not None or any(not o.holds for o in result.outcomes)
    return ExitCode.FAILED if failed else ExitCode.OK
