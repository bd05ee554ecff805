"""Opens checkpoints for those who may only read what is below some roots."""

from __future__ import annotations

import os

from stateplan.common.files import place_of, require_root, rooted_path
from stateplan.common.roots import current_roots
from stateplan.plans.state.reader import CheckpointReader


def open_checkpoint(path: str, batch: int | None = None, at: int | None = None) -> CheckpointReader:
    """A checkpoint, as :meth:`CheckpointReader.read` opens it.

    Raises:
        CheckpointError: CKPT001, CKPT002, CKPT041 to CKPT043, or CKPT005.
        PlanError: the plan in it cannot be read.
        GatewayError: GW012, where roots are held, and it is not below one, or a link in it leads out of them.
    """
    require_root(path)
    if current_roots() is not None:
        _check_links(place_of(path))
    return CheckpointReader.read(path, batch=batch, at=at)


def _check_links(folder: str | None) -> None:
    """Raises GatewayError GW012 for a link that leads out of the roots: a message could show what is behind it."""
    for place, folders, files in os.walk(rooted_path(folder)) if folder is not None else ():
        for name in (*folders, *files):
            path = os.path.join(place, name)
            if os.path.islink(path):
                rooted_path(path)
