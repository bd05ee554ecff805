"""The state of a checkpoint, to look at: how much there is, how old it is, what another TTL would leave, and its rows.

Nothing here changes a checkpoint or disturbs a job that runs on it.
"""

from __future__ import annotations

from stateplan.plans.state.reader import CheckpointReader
from stateplan.plans.state.show import StateOf

__all__ = ["CheckpointReader", "StateOf"]
