"""Groups of commands. A command's module loads when it is called, or when the group's help lists it.

So ``stateplan plan show`` does not pay for what the other commands import.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from stateplan.cli.options import EXIT_CODES
from stateplan.common.lazy_table import LazyTable


def group(
    about: str,
    commands: Mapping[str, str],
    *,
    no_args_is_help: Collection[str] = (),
    cls: type[TyperGroup] = TyperGroup,
    **settings: Any,
) -> typer.Typer:
    """A group of commands.

    Args:
        about: the first paragraph of its help.
        commands: name to ``module:object`` in the order of its help: the function of a command, or the Typer of
            another group.
        no_args_is_help: the commands that print their help if they are called without an argument.
        cls: the class of the group.
        settings: further arguments of ``typer.Typer``.
    """

    def make(name: str, target: Any) -> Any:
        if not isinstance(target, typer.Typer):
            function, target = target, typer.Typer(add_completion=False, rich_markup_mode=None)
            target.command(name, no_args_is_help=name in no_args_is_help)(function)
        command = get_command(target)
        command.name = name
        return command

    class Group(cls):  # type: ignore[misc, valid-type] # its base is an argument
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = LazyTable(commands, make)

    settings = {"add_completion": False, "callback": _no_options, **settings}
    return typer.Typer(
        cls=Group, no_args_is_help=True, rich_markup_mode=None, epilog=EXIT_CODES, help=about, **settings
    )


def _no_options() -> None:
    """Makes a group of it: Typer takes one without a callback for a single command."""
