"""Options that commands share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import PurePath
from typing import Annotated, Any, TypeVar

import typer

from stateplan.cli.exit_codes import ExitCode
from stateplan.common.errors import OptionError, nearest

F = TypeVar("F", bound=StrEnum)

EXIT_CODES = "Exit codes: " + "; ".join(f"{code.value} {code.meaning}" for code in ExitCode) + "."


class Format(StrEnum):
    """Output formats."""

    TEXT = "text"
    JSON = "json"


class ReportFormat(StrEnum):
    """Output formats of commands whose result may appear in a pull request."""

    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


FormatOption = Annotated[Format, typer.Option("--format", help="Output format: text, or one JSON object per line.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Suppress notes and progress on standard error.")]
DebugOption = Annotated[bool, typer.Option("--debug", envvar="STATEPLAN_DEBUG", help="Show the traceback of an error.")]
SettingsOption = Annotated[
    list[str],
    typer.Option(
        "--define",
        "-D",
        metavar="KEY=VALUE",
        default_factory=list,
        show_default=False,
        help="Set an option, as SET does in SQL. Repeatable.",
    ),
]
InitOption = Annotated[
    str | None,
    typer.Option("--init", "-i", metavar="SCRIPT", help="SQL script to run first, with tables and settings."),
]
ScriptOption = Annotated[
    str | None,
    typer.Option("--file", "-f", metavar="SCRIPT", help="SQL script to run first, with tables and settings."),
]
PlanArgument = Annotated[
    str, typer.Argument(metavar="PLAN", help="Path or URL of a plan file, or - for standard input.")
]
AssignmentsArgument = Annotated[
    list[str],
    typer.Argument(
        metavar="SELECTOR=TTL...", help="State and TTL, such as 'deduplicate=1 h', 'join.right=7 d' or '5.0=never'."
    ),
]
CheckpointArgument = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="Checkpoint directory of a running or stopped job.")
]


def settings(pairs: Sequence[str]) -> dict[str, str]:
    """The options of ``-D KEY=VALUE``.

    Raises:
        OptionError: OPT401, when one has no ``=`` or no key.
    """
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key.strip():
            raise OptionError("OPT401", pair=pair)
        options[key.strip()] = value.strip()
    return options


def output_option(text: str) -> Any:
    """The option ``--output``; ``text`` is its help."""
    return typer.Option("--output", "-o", metavar="FILE", help=text)


def extensions(by_extension: Mapping[str, object]) -> str:
    """The extensions of files that a command writes, for its help."""
    *others, last = by_extension
    return f"{', '.join(others)} or {last}"


def format_of(output_format: F | None, target: str | None, by_extension: Mapping[str, F]) -> F | None:
    """The format that ``--format`` gives, or else the extension of ``--output``; None without either.

    Raises:
        OptionError: OPT403, for an extension that no format has.
    """
    suffix = PurePath((target or "").rpartition("/")[2]).suffix
    if output_format is not None or len(suffix) < 2:
        return output_format
    by_suffix = by_extension.get(suffix.lower())
    if by_suffix is None:
        hint = nearest(suffix, by_extension)
        raise OptionError("OPT403", target=target, suffix=suffix, known=", ".join(by_extension), hint=hint)
    return by_suffix


BatchOption = Annotated[
    int | None,
    typer.Option("--batch", metavar="N", help="Show the state after micro-batch N. Default: the last one."),
]
AtOption = Annotated[
    str | None,
    typer.Option(
        "--at",
        metavar="INSTANT",
        help="Compute ages at this time: '2026-01-31 08:00:00' in UTC, or epoch milliseconds. Default: now, or the "
        "last replayed instant.",
    ),
]


def instant(text: str | None) -> int | None:
    """Milliseconds since 1970 of an instant on the command line.

    Raises:
        typer.BadParameter: when it is none.
    """
    if text is None:
        return None
    try:
        if text.strip().lstrip("-").isdecimal():
            return int(text)
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(
            f"{text!r:.60} is neither an instant such as '2026-01-31 08:00:00' nor a number of milliseconds",
            param_hint="--at",
        ) from None
    moment_in_zone = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment_in_zone.timestamp() * 1000)
