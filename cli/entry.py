"""The entry point of the command. Loads nothing before it decides what an interrupt does meanwhile."""

from __future__ import annotations

import signal
from typing import NoReturn


def main() -> NoReturn:
    """Loads the command and runs it. Ctrl-C while it loads ends the process at once, without a traceback."""
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_default:  # another parent may have turned interrupts off
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from stateplan.cli.app import main as run

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()
