"""Plans that commands read and write: files, URLs, and ``-`` for standard input and output."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING

from stateplan.common.errors import OptionError, PlanError

if TYPE_CHECKING:
    from stateplan.cli.console import Console
    from stateplan.plans.document import PlanDocument

STREAM = "-"
"""The path that means standard input or standard output."""


def read_plan(path: str) -> PlanDocument:
    """The plan at a path or URL, or on standard input.

    Raises:
        PlanError: as :meth:`plans.document.PlanDocument.load`.
    """
    from stateplan.plans.document import PlanDocument

    if path != STREAM:
        return PlanDocument.load(path)
    return PlanDocument.from_bytes(sys.stdin.buffer.read() if sys.stdin else b"", "<stdin>")


@contextmanager
def tells_new_folder(console: Console, target: str | None) -> Iterator[None]:
    """Says at the end if writing the file ``target`` has created its folder, whose name may be mistyped."""
    from stateplan.plans import storage

    folder = None if target is None else storage.missing_folder(target)
    yield
    if folder is not None and target is not None and storage.missing_folder(target) is None:
        console.note(f"created the folder {folder}")


def write_plan(console: Console, document: PlanDocument, target: str, overwrite: bool) -> None:
    """Writes a plan to a path or URL, whole or not at all.

    Raises:
        PlanError: as :meth:`plans.document.PlanDocument.write`, with the command's option as the way out.
    """
    try:
        with tells_new_folder(console, target):
            document.write(target, overwrite=overwrite)
    except PlanError as error:
        if error.code == "PLAN002":
            error.hint = "--overwrite replaces it"
        raise


def check_plot(plot: str | None) -> None:
    """Raises OptionError OPT403, when a plot cannot be written in the format of its file."""
    if plot is not None and PurePath(plot).suffix.lower() not in (".svg", ".html"):
        raise OptionError("OPT403.ending", target=plot, endings=".svg or .html")


def write_plot(console: Console, target: str | None, svg: Callable[[], str], html: Callable[[], str]) -> None:
    """Writes a plot in the format of its file, which :func:`check_plot` has accepted; nothing for None."""
    from stateplan.plans.render.output import write_beside

    if target is not None:
        with tells_new_folder(console, target):
            write_beside(None, target, svg() if PurePath(target).suffix.lower() == ".svg" else html())
