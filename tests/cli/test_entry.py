"""The command before it has loaded."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

_SLOW = """
    import sys, time
    from importlib.abc import MetaPathFinder


    class Slow(MetaPathFinder):
        def find_spec(self, name, path=None, target=None):
            if name == "stateplan.cli.app":
                print("loading", flush=True)
                time.sleep(60)


    sys.meta_path.insert(0, Slow())
    from stateplan.cli.entry import main

    main()
"""


def test_an_interrupt_while_the_command_loads_prints_no_traceback() -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(_SLOW)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (-signal.SIGINT, "")
