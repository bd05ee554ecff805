"""What a gateway writes to standard error."""

from __future__ import annotations

import subprocess
import sys

_LOGS = """
import logging
from stateplan.cli.gateway import _log_to_stderr

logging.getLogger().addHandler(logging.NullHandler())
_log_to_stderr(quiet={quiet})
logging.getLogger("stateplan").warning("a tweak is lost: postgresql://me:secret@h")
logging.getLogger("stateplan").info("nobody needs this")
logging.getLogger("stateplan.gateway").info("a job runs")
logging.getLogger("stateplan.gateway").error("a job has failed")
logging.getLogger("py4j").error("a call was interrupted")
"""


def logged(quiet: bool) -> list[str]:
    """The lines of a gateway's log, without their time."""
    done = subprocess.run([sys.executable, "-c", _LOGS.format(quiet=quiet)], capture_output=True, text=True, check=True)
    return [line.split(" ", 2)[2] for line in done.stderr.splitlines()]


def test_warnings_of_the_runtime_and_the_life_of_jobs() -> None:
    warning, *rest = logged(quiet=False)
    assert warning.startswith("WARNING a tweak is lost: ") and "secret" not in warning
    assert rest == ["INFO a job runs", "ERROR a job has failed"]


def test_a_quiet_gateway_logs_errors_alone() -> None:
    assert logged(quiet=True) == ["ERROR a job has failed"]
