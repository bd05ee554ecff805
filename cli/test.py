"""``stateplan test``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode
from stateplan.cli.options import SettingsOption, settings
from stateplan.common.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from stateplan.testing.suite import FileOutcome, Report, Selection

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
    processes: Annotated[int, typer.Option("-j", metavar="N", min=1, help="Run the files in N processes.")] = 1
    junit_xml: Annotated[
        str | None, typer.Option("--junit-xml", metavar="FILE", help="Also write the results as JUnit XML.")
    ] = None
    update: Annotated[bool, typer.Option("--update", help="Write the actual rows into the files, as expectations.")] = (
        False
    )
    watch: Annotated[bool, typer.Option("--watch", help="Run the tests again whenever a file changes.")] = False
    coverage: Annotated[
        bool, typer.Option("--coverage", help="Report the operators, TTLs and branches of CASE that no test touches.")
    ] = False
    properties: Annotated[
        bool,
        typer.Option(
            "--properties", help="Repeat each test with other micro-batches, orders, key groups and restarts."
        ),
    ] = False
    mutate: Annotated[
        bool,
        typer.Option("--mutate", help="Change TTLs and queries, one thing at a time. Exit with 9 if no test fails."),
    ] = False
    spark: Annotated[bool, typer.Option("--spark", help="Run the tests on Spark, with a checkpoint.")] = False
    flink: Annotated[bool, typer.Option("--flink", help="Run the tests on Flink, where PyFlink is installed.")] = False
    mutants: Annotated[int, typer.Option(metavar="N", min=1, help="With --mutate: this number of changes.")] = 200
    seed: Annotated[int, typer.Option(metavar="N", help="With --mutate and --properties: the seed.")] = 0

    def check(self) -> None:
        """Raises typer.BadParameter for options that exclude each other."""
        modes = {
            "--update": self.update,
            "--watch": self.watch,
            "--coverage": self.coverage,
            "--properties": self.properties,
            "--mutate": self.mutate,
            "--spark": self.spark,
            "--flink": self.flink,
        }
        chosen_modes = [name for name, is_chosen in modes.items() if is_chosen]
        if len(chosen_modes) > 1:
            raise typer.BadParameter(f"{' and '.join(chosen_modes)} are mutually exclusive")
        if (self.spark or self.flink) and self.processes > 1:
            raise typer.BadParameter(f"{chosen_modes[0]} runs in one process")


@command()
def test(console: Console, arguments: Arguments) -> ExitCode:
    """Run tests of streaming queries, without Spark."""
    from stateplan.testing.reader import find_files
    from stateplan.testing.suite import Selection

    arguments.check()
    files = find_files(arguments.paths)
    selection = Selection(settings(arguments.pairs), arguments.select, explains=not arguments.update)
    if arguments.spark:
        from stateplan.testing.on_spark import run_on_spark

        selection = replace(selection, run=run_on_spark, explains=False)
    if arguments.flink:
        from stateplan.testing.on_flink import require_flink, run_on_flink

        require_flink()
        selection = replace(selection, run=run_on_flink, explains=False)
    if arguments.coverage:
        return _coverage(console, files, selection)
    if arguments.properties:
        return _properties(console, files, selection, arguments.seed)
    if arguments.mutate:
        return _mutate(console, files, selection, arguments)
    if arguments.watch:
        _watch(console, arguments, selection)
    return _run(console, files, selection, arguments)


def _run(console: Console, files: Sequence[str], selection: Selection, arguments: Arguments) -> ExitCode:
    from stateplan.testing.reporting import junit_xml, summary
    from stateplan.testing.suite import run_suite

    tell = (lambda result: None) if arguments.update else partial(_tell, console)
    report = run_suite(files, selection, arguments.processes, tell)
    if arguments.junit_xml is not None:
        Path(arguments.junit_xml).write_text(junit_xml(report), "utf-8")
    if arguments.update:
        return _update(console, report, selection)
    console.note(summary(report))
    return ExitCode.FAILED if report.failed else ExitCode.OK


def _tell(console: Console, result: FileOutcome) -> None:
    """Prints what became of the tests of a file."""
    from stateplan.testing.reporting import file_json, file_text

    if result.outcomes or result.error is not None:
        console.show(file_text(result), file_json(result))


def _update(console: Console, report: Report, selection: Selection) -> ExitCode:
    """Writes expectations, and runs the changed files again."""
    from stateplan.testing.suite import run_file
    from stateplan.testing.updating import update_file

    is_wrong = False
    for result in report.files:
        count = 0 if result.error is not None else update_file(result)
        if count:
            console.note(f"{result.file}: wrote {count} {'expectation' if count == 1 else 'expectations'}")
            result = run_file(result.file, selection)
        _tell(console, result)
        is_wrong |= result.error is not None or any(not o.holds for o in result.outcomes)
    return ExitCode.FAILED if is_wrong else ExitCode.OK


def _coverage(console: Console, files: Sequence[str], selection: Selection) -> ExitCode:
    """Reports what the tests of each file touch."""
    from stateplan.testing.coverage import Coverage, coverage_json, coverage_text
    from stateplan.testing.suite import load

    is_wrong = False
    for file in files:
        coverage = Coverage()
        outcomes = [coverage.add(case, selection.options) for case in selection.cases(load(file))]
        is_wrong |= any(not outcome.holds for outcome in outcomes)
        console.show(f"{file}:\n{coverage_text(coverage)}", {"file": file, **coverage_json(coverage)})
    return ExitCode.FAILED if is_wrong else ExitCode.OK


def _properties(console: Console, files: Sequence[str], selection: Selection, seed: int) -> ExitCode:
    """Reports which variations of tests leave other tables."""
    from stateplan.testing.properties import check_properties, properties_json, properties_text
    from stateplan.testing.suite import load

    deviates = False
    for file in files:
        results = [check_properties(case, selection.options, seed) for case in selection.cases(load(file))]
        deviates |= any(result.deviations for result in results)
        data = {"file": file, "tests": [properties_json(result) for result in results]}
        console.show(f"{file}:\n{properties_text(results)}", data)
    return ExitCode.FINDINGS if deviates else ExitCode.OK


def _mutate(console: Console, files: Sequence[str], selection: Selection, arguments: Arguments) -> ExitCode:
    """Reports which changes no test notices."""
    from stateplan.testing.mutation import Mutation, mutate, mutation_json, mutation_text
    from stateplan.testing.suite import load

    stories = [load(file) for file in files]
    mutation = Mutation()
    for mutant in mutate(stories, selection, arguments.mutants, arguments.seed):
        mutation.results.append(mutant)
        console.status(f"{len(mutation.results)} mutants")
    console.show(mutation_text(mutation), mutation_json(mutation))
    return ExitCode.FINDINGS if mutation.survivors else ExitCode.OK


def _watch(console: Console, arguments: Arguments, selection: Selection) -> None:
    """Runs the tests whenever a file changes, until Ctrl-C."""
    from stateplan.testing.watching import changes

    for files in changes(arguments.paths):
        console.note(f"{len(files)} {'file has' if len(files) == 1 else 'files have'} changed")
        _run(console, files, selection, arguments)
