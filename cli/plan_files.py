"""Plans that commands read and write: files, URLs, and ``-`` for standard input and output."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from stateplan.execnodes.errors import PlanError

if TYPE_CHECKING:
    from stateplan.plans.document import PlanDocument

STREAM = "-"
"""Instead of a file: standard input, or standard output."""


def read_plan(path: str) -> PlanDocument:
    """The plan at a path or URL, or on standard input.

    Raises:
        PlanError: as :meth:`plans.document.PlanDocument.load`.
    """
    from stateplan.plans.document import PlanDocument

    if path != STREAM:
        return PlanDocument.load(path)
    return PlanDocument.from_bytes(sys.stdin.buffer.read() if sys.stdin else b"", "<stdin>")


def write_plan(document: PlanDocument, target: str, overwrite: bool) -> None:
    """Writes a plan to a path or URL, whole or not at all.

    Raises:
        PlanError: as :meth:`plans.document.PlanDocument.write`, with the command's option as the way out.
    """
    try:
        document.write(target, overwrite=overwrite)
    except PlanError as error:
        if error.code == "PLAN002":
            error.hint = "--overwrite replaces it"
        raise
