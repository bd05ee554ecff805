"""``stateplan plan schema``."""

from __future__ import annotations

from stateplan.cli.console import Console
from stateplan.cli.options import DebugOption, FileOption, Format, run
from stateplan.cli.plan_files import tells_new_folder


def schema(target: FileOption = None, debug: DebugOption = False) -> None:
    """Print the JSON Schema of plan files, for completion, hover text and validation in an editor."""

    def work(console: Console) -> None:
        import json

        from stateplan.plans.render.output import write_beside
        from stateplan.plans.schema import plan_schema

        text = json.dumps(plan_schema(), indent=2, ensure_ascii=False) + "\n"
        if target is None:
            console.show(text, None)
        else:
            with tells_new_folder(console, target):
                write_beside(None, target, text)

    run(Format.TEXT, False, debug, work)
