"""Writing a drawing to a file."""

from __future__ import annotations

import re

from stateplan.common.errors import PlanError
from stateplan.common.files import safe_url
from stateplan.plans import storage
from stateplan.plans.document import PlanDocument

_VERSION = re.compile(rb'"flinkVersion"\s*:\s*"')


def write_beside(document: PlanDocument | None, target: str, text: str) -> None:
    """Writes ``text`` about a plan or plans to a path or URL, whole or not at all; an existing file is replaced.

    Raises:
        PlanError: PLAN183, when that file is the plan itself, or another plan; else as :func:`storage.write_bytes`.
    """
    if storage.exists(target) and _is_plan(target):
        own = document is not None and document.file is not None and safe_url(target) == safe_url(document.file)
        raise PlanError("PLAN183", shown=safe_url(target), wording="the plan itself" if own else "a plan")
    storage.write_bytes(target, text.encode("utf-8"), overwrite=True)


def _is_plan(target: str) -> bool:
    """Whether there is something that says which Flink it is for, as the beginning of a plan does."""
    try:
        return _VERSION.search(storage.read_bytes(target)[:65536]) is not None
    except PlanError:  # it cannot be read; whether it can be written is asked next
        return False
