"""What the process returns, and for which error."""

from __future__ import annotations

from enum import IntEnum

from stateplan.execnodes.errors import CheckpointError, DataError, RunError, StateplanError


class ExitCode(IntEnum):
    """Exit codes of ``stateplan``; the meaning of each is its documentation."""

    meaning: str

    def __new__(cls, value: int, meaning: str) -> ExitCode:
        member = int.__new__(cls, value)
        member._value_ = value
        member.meaning = meaning
        return member

    OK = 0, "done"
    FAILED = 1, "a job failed: its data, a sink, Spark"
    USAGE = 2, "the command line is wrong"
    BAD_INPUT = 3, "SQL, a plan file, a table or an option is wrong; nothing was run"
    CHECKPOINT = 4, "the checkpoint does not fit the plan, is damaged or in use, or did not take in a change"
    FINDINGS = 9, "plan lint has something to say, or a command with --check or --diff would change something"
    BUG = 70, "a bug in stateplan"
    INTERRUPTED = 130, "stopped by Ctrl-C; the job was ended cleanly"
    BROKEN_PIPE = 141, "nobody reads standard output any more"
    TERMINATED = 143, "stopped by SIGTERM; the job was ended cleanly"


_BY_CLASS: tuple[tuple[type[StateplanError], ExitCode], ...] = (
    (CheckpointError, ExitCode.CHECKPOINT),
    (RunError, ExitCode.FAILED),
    (DataError, ExitCode.FAILED),
    (StateplanError, ExitCode.BAD_INPUT),
)


def exit_code(error: StateplanError) -> ExitCode:
    """The exit code for an error."""
    return next(code for cls, code in _BY_CLASS if isinstance(error, cls))
