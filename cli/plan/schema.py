"""``stateplan plan schema``."""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated

from stateplan.cli.command import command
from stateplan.cli.console import Console
from stateplan.cli.options import output_option
from stateplan.cli.plan_files import tells_new_folder
from stateplan.common.errors import OptionError


@command(formats=False, quiet=False)
def schema(
    console: Console,
    target: Annotated[
        str | None,
        output_option("File to write, which ends in .json. An existing file is replaced."),
    ] = None,
) -> None:
    """Print the JSON Schema of plan files, for completion, hover text and validation in an editor."""
    import json

    from stateplan.plans.render.output import write_beside
    from stateplan.plans.schema import plan_schema

    text = json.dumps(plan_schema(), indent=2, ensure_ascii=False) + "\n"
    if target is not None and PurePath(target).suffix.lower() not in ("", ".json"):
        raise OptionError("OPT403.ending", target=target, endings=".json")
    if target is None:
        console.show(text, None)
    else:
        with tells_new_folder(console, target):
            write_beside(None, target, text)
