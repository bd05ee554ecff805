"""Exit codes, and the error class of each."""

from __future__ import annotations

from enum import IntEnum

from stateplan.common.errors import CheckpointError, DataError, RunError, StateplanError


class ExitCode(IntEnum):
    """Exit codes of ``stateplan``. ``meaning`` is shown in the help and in the documentation."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "success"
    FAILED = 1, "the job failed, or a test did"
    USAGE = 2, "invalid command line"
    BAD_INPUT = 3, "invalid SQL, plan file, table, option, selector or value; nothing was run"
    CHECKPOINT = 4, "the checkpoint does not match the plan, is damaged or in use, or a requested change timed out"
    FINDINGS = 9, "lint or a review reported problems, --check or --diff found changes, or tests missed some"
    BUG = 70, "a bug in stateplan"
    INTERRUPTED = 130, "stopped by Ctrl-C; the job shut down cleanly"
    BROKEN_PIPE = 141, "stdout was closed"
    TERMINATED = 143, "stopped by SIGTERM; the job shut down cleanly"


_BY_CODE = {
    **dict.fromkeys(("OPT401", "OPT402", "OPT403", "OPT404", "OPT405", "OPT421", "PLAN105"), ExitCode.USAGE),
    **dict.fromkeys(("CKPT044", "CKPT046", "CKPT048", "CKPT049"), ExitCode.BAD_INPUT),
    "BUG000": ExitCode.BUG,
}
"""The errors of arguments, of their form and of what they name in a checkpoint; and a bug in a statement."""

_BY_CLASS: tuple[tuple[type[StateplanError], ExitCode], ...] = (
    (CheckpointError, ExitCode.CHECKPOINT),
    (RunError, ExitCode.FAILED),
    (DataError, ExitCode.FAILED),
    (StateplanError, ExitCode.BAD_INPUT),
)


def exit_code(error: StateplanError) -> ExitCode:
    """The exit code for an error."""
    return _BY_CODE.get(error.code) or next(code for cls, code in _BY_CLASS if isinstance(error, cls))
