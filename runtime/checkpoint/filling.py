"""What a checkpoint directory has while it is filled from another one."""

from __future__ import annotations

RECOVERING = "recovering"
"""The file that names the other one, until the directory has all that it needs."""

BACKFILL, CORRECTIONS = "backfill", "corrections"
"""How the folders of jobs begin that only help to fill it."""
