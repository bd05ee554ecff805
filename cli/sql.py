"""``stateplan sql``."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Mapping, Sequence

from stateplan.cli.console import Console
from stateplan.execnodes.errors import OptionError, StateplanError


def run(
    console: Console,
    options: Mapping[str, str],
    file: str | None,
    statements: Sequence[str],
    init: str | None,
    debug: bool,
) -> None:
    """Runs a script, statements, standard input, or the shell when that is a terminal.

    Raises:
        OptionError: OPT402, when there are both a script and statements.
        StateplanError: what ended the script.
    """
    if file and statements:
        raise OptionError("OPT402")
    from stateplan.cli.session import Session

    session = Session(console, options, init)
    if file:
        from stateplan.cli.session import read_text

        session.run_script(read_text(file), "<stdin>" if file == "-" else file)
    elif statements:
        for statement in statements:
            session.run_script(statement)
    elif sys.stdin.isatty():
        _shell(console, session.run_script, debug)
    else:
        session.run_script(sys.stdin.read(), "<stdin>")


def _shell(console: Console, run_script: Callable[..., None], debug: bool) -> None:
    """The interactive shell over a session."""
    from stateplan.cli.shell import Shell, with_history

    def run_statement(text: str) -> None:
        try:
            run_script(text, acknowledge=True)
        except StateplanError as error:
            console.error(error)
            if debug:
                traceback.print_exc()
        except Exception as bug:
            console.bug(bug)
            if debug:
                traceback.print_exc()
        finally:
            console.close()

    console.note("Type HELP; for help, QUIT; to exit.")
    with with_history():
        Shell(console, run_statement).loop()
