"""``stateplan format``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.exit_codes import ExitCode, exit_code
from stateplan.cli.plan_files import STREAM
from stateplan.common.errors import Place, SqlError, StateplanError
from stateplan.common.paths import visible_files

_several = partial(typer.Argument, default_factory=lambda: ["."], show_default=False)


@command()
def format_sql(
    console: Console,
    paths: Annotated[
        list[str],
        _several(
            metavar="[PATHS]", help="SQL files, folders with such files, or - for standard input. Default: this folder."
        ),
    ],
    check: Annotated[bool, typer.Option("--check", help="Write nothing. Exit with 9 if a file would change.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Print the changes without writing them.")] = False,
    width: Annotated[int, typer.Option(metavar="N", min=40, help="Most characters of a line.")] = 100,
) -> ExitCode:
    """Lay out SQL files: clauses on lines of their own, comments where they are."""
    from stateplan.plans.text_splices import unified_diff

    changed_files, worst = list[str](), ExitCode.OK
    count = 0
    for name in _files(paths):
        count += 1
        try:
            before = _read(name)
            after = _formatted(console, before, name, width)
        except StateplanError as error:
            console.error(error)
            worst = exit_code(error)
            continue
        if name == STREAM and not (check or diff):
            console.raw(after.encode())
        elif before != after:
            changed_files.append(name)
            if diff:
                text = unified_diff(before, after, name, f"{name} (formatted)", 2)
                console.show(text, {"file": name, "diff": text})
            elif not check:
                _write(name, after)
            if not diff:
                console.note(f"{'would change' if check else 'changed'} {name}")
    if list(paths) != [STREAM]:
        console.note(_summary(count, len(changed_files), check or diff))
    if worst is ExitCode.OK and changed_files and (check or diff):
        return ExitCode.FINDINGS
    return worst


def _summary(count: int, changes: int, is_dry: bool) -> str:
    from stateplan.common.readable import amount

    return f"{amount(count, 'file')}: {changes} {'would change' if is_dry else 'changed'}"


def _files(paths: Sequence[str]) -> Iterator[str]:
    """The files below paths, without hidden ones. Raises SqlError SQL401, a path does not exist."""
    for text in paths:
        place = Path(text)
        if text == STREAM or place.is_file():
            yield text
        elif place.is_dir():
            yield from map(str, visible_files(place, "*.sql"))
        else:
            raise SqlError("SQL401", reason="it does not exist", what="the script", place=Place(file=text))


def _read(name: str) -> str:
    try:
        data = sys.stdin.buffer.read() if name == STREAM else Path(name).read_bytes()
        return data.decode("utf-8")
    except (OSError, ValueError) as cause:
        reason = cause.strerror if isinstance(cause, OSError) else "it is not UTF-8 text"
        raise SqlError("SQL401", reason=reason, what="the script", place=Place(file=name)) from cause


def _formatted(console: Console, text: str, name: str, width: int) -> str:
    """The text of a file in one form, with its own ends of lines."""
    from stateplan.planner.formatting import format_sql as lay_out

    mark = "\ufeff" if text.startswith("\ufeff") else ""
    has_returns = "\r\n" in text
    plain = text.removeprefix(mark).replace("\r\n", "\n")
    result = lay_out(plain, "<stdin>" if name == STREAM else name, width)
    for place in result.verbatim:
        console.warning(f"{place}: this statement stays as it is, because another layout would change it")
    return mark + (result.text.replace("\n", "\r\n") if has_returns else result.text)


def _write(name: str, text: str) -> None:
    from stateplan.plans import storage

    storage.write_bytes(name, text.encode("utf-8"), overwrite=True)
