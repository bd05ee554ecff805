"""Writing a drawing to a file."""

from __future__ import annotations

from execnodes.errors import PlanError
from plans import storage
from plans.document import PlanDocument

__all__ = ["write_beside"]


def write_beside(document: PlanDocument, target: str, text: str) -> None:
    """Writes ``text`` about a plan to a path or URL, whole or not at all; an existing file is replaced.

    Raises:
        PlanError: PLAN183, when that file is the plan itself, or another plan; else as :func:`storage.write_bytes`.
    """
    if storage.exists(target) and _is_plan(target):
        own = document.file is not None and storage.shown(target) == storage.shown(document.file)
        raise PlanError(
            "PLAN183",
            f"the file '{storage.shown(target)}' is {'the plan itself' if own else 'a plan'}: it is not replaced",
            expected="a path where no plan is",
        )
    storage.write_bytes(target, text.encode("utf-8"), overwrite=True)


def _is_plan(target: str) -> bool:
    """Whether there is something that says which Flink it is for, as the beginning of a plan does."""
    return b'"flinkVersion"' in storage.read_bytes(target)[:65536]
