"""The skeleton of every command: :func:`command` makes one of a function, and turns errors into exit codes."""

from __future__ import annotations

import functools
import inspect
import logging
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from inspect import Parameter
from types import TracebackType
from typing import Annotated, Any, NoReturn, Optional, get_args, get_origin, get_type_hints

import typer
from typer.exceptions import TyperException

from stateplan.cli.console import Console, abandon, make_console
from stateplan.cli.exit_codes import ExitCode, exit_code
from stateplan.cli.options import DebugOption, Format, FormatOption, QuietOption
from stateplan.common.errors import StateplanError
from stateplan.common.lazy_dataclass import dataclass
from stateplan.common.redaction import redacted

Body = Callable[..., int | None]

_COMMON: dict[str, tuple[Any, Any]] = {
    "output": (FormatOption, Format.TEXT),
    "quiet": (QuietOption, False),
    "debug": (DebugOption, False),
}
"""The options that commands have at their end, with their defaults."""

_SILENT = logging.NullHandler()
"""Takes what py4j logs of calls that Ctrl-C interrupts. There is one: a process may run thousands of commands."""


def command(*, formats: bool = True, quiet: bool = True) -> Callable[[Body], Callable[..., None]]:
    """Makes a command of a function, whose first parameter is the console and whose result is an exit code, or None.

    The other parameters are arguments and options. One whose type is a dataclass stands for all fields of that class.
    The options ``--format``, ``--quiet`` and ``--debug`` come last. A function that asks for their values has
    parameters called ``output``, ``quiet`` and ``debug``. It may declare its own ``--format``, also as ``output``.

    Args:
        formats: whether the command has ``--format``.
        quiet: whether it has ``--quiet``.
    """

    def decorate(body: Body) -> Callable[..., None]:
        parameters_of_body = list(_parameters_of(body))
        own = {one.name for one in parameters_of_body if one.kind is not None}
        common = [name for name in ("output", "quiet", "debug") if name not in own]
        if not formats:
            common.remove("output")
        if not quiet:
            common.remove("quiet")
        common_names = {one.name for one in parameters_of_body if one.kind is None}

        @functools.wraps(body)
        def run_command(**arguments: Any) -> None:
            values = {name: arguments.pop(name) for name in common}
            debug, output = values["debug"], values.get("output", arguments.get("output")) or Format.TEXT
            arguments |= {name: value for name, value in values.items() if name in common_names}
            run(
                output,
                values.get("quiet", False),
                debug,
                lambda console: body(console, **_arguments_of(parameters_of_body, arguments)),
            )

        parameters = [one.parameter() for one in parameters_of_body if one.kind is not None]
        parameters += [_parameter(name, *_COMMON[name]) for name in common]
        _declare(run_command, parameters)
        return run_command

    return decorate


@dataclass(frozen=True)
class _Parameter:
    """An argument or option of a command.

    Attributes:
        name: the name of the parameter, or of the field.
        kind: its type, with what it is on the command line; None for a value of a common option.
        default: what it is without; ``Parameter.empty`` where it is required.
        factory: makes the default of a list.
        record: name and class of the parameter that gathers it with others; None if it is one itself.
    """

    name: str
    kind: Any
    default: Any = Parameter.empty
    factory: Callable[[], Any] | None = None
    record: tuple[str, type] | None = None

    def parameter(self) -> Parameter:
        """For the command line."""
        if self.factory is None:
            return _parameter(self.name, self.kind, self.default)
        of, *more = get_args(self.kind)
        return _parameter(self.name, Annotated[Optional[of], *more], None)  # noqa: UP045 - of a type in a variable


def _parameters_of(body: Body) -> Iterator[_Parameter]:
    """What a function declares besides its console."""
    hints = get_type_hints(body, include_extras=True)
    _, *parameters = inspect.signature(body).parameters.values()
    for one in parameters:
        kind = hints[one.name]
        if is_dataclass(kind):
            yield from _fields(one.name, kind)
        elif one.name in _COMMON and get_origin(kind) is not Annotated:
            yield _Parameter(one.name, None)
        else:
            yield _Parameter(one.name, kind, one.default)


def _fields(name: str, record: Any) -> Iterator[_Parameter]:
    hints = get_type_hints(record, include_extras=True)
    for f in fields(record):
        factory = None if f.default_factory is MISSING else f.default_factory
        default = Parameter.empty if f.default is MISSING else f.default
        yield _Parameter(f.name, hints[f.name], default, factory, (name, record))


def _arguments_of(parameters: list[_Parameter], arguments: dict[str, Any]) -> dict[str, Any]:
    """The values of a command line as a function takes them."""
    out: dict[str, Any] = {}
    records: dict[tuple[str, type], dict[str, Any]] = {}
    for one in parameters:
        value = arguments[one.name]
        if value is None and one.factory is not None:
            value = one.factory()
        (out if one.record is None else records.setdefault(one.record, {}))[one.name] = value
    return out | {name: kind(**values) for (name, kind), values in records.items()}


def _parameter(name: str, kind: Any, default: Any) -> Parameter:
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)


def _declare(function: Callable[..., None], parameters: list[Parameter]) -> None:
    """Tells Typer the parameters of a function."""
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by inspect
    function.__annotations__ = {one.name: one.annotation for one in parameters}


def show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Writes a traceback without secrets: libraries quote the address that they cannot reach."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


def run(output: StrEnum, quiet: bool, debug: bool, work: Callable[[Console], int | None]) -> None:
    """Runs a command and exits with its exit code, or with the code of the error."""
    console = make_console(output.value, quiet)
    if not debug:
        logging.getLogger().addHandler(_SILENT)
    previous = signal.signal(signal.SIGTERM, _terminate)
    code: int = ExitCode.OK
    try:
        code = work(console) or ExitCode.OK
    except TyperException:
        raise
    except StateplanError as error:
        if error.code == "RUN090":
            abandon(sys.stdout)
        if isinstance(error.__cause__, BrokenPipeError):
            code = ExitCode.BROKEN_PIPE
        else:
            console.error(error)
            code = exit_code(error)
        if debug:
            sys.excepthook = show_traceback
            raise
    except KeyboardInterrupt as signalled:
        code = _on_signal(signalled) or ExitCode.INTERRUPTED
    except BrokenPipeError:
        abandon(sys.stdout)
        code = ExitCode.BROKEN_PIPE
    except Exception as bug:
        signalled_code = _on_signal(bug)
        if signalled_code is None:
            from stateplan.runtime.failures import as_error

            failure = as_error(bug)
            console.error(failure)
        code = signalled_code or exit_code(failure)
        if debug:
            sys.excepthook = show_traceback
            raise
    finally:
        console.close()
        signal.signal(signal.SIGTERM, previous)
    if code:
        raise typer.Exit(int(code))


def _on_signal(error: BaseException | None) -> ExitCode | None:
    """The exit code of an error caused by a signal. PySpark's handler may itself fail during a call."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    if error is None:
        return None
    return ExitCode.TERMINATED if isinstance(error, Termination) else ExitCode.INTERRUPTED


class Termination(KeyboardInterrupt):
    """SIGTERM: ends a job the way Ctrl-C does."""


def _terminate(*_: object) -> NoReturn:
    raise Termination
