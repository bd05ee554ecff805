"""dbt on stateplan."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.stateplan.connections import StateplanConnectionManager, StateplanCredentials
from dbt.adapters.stateplan.impl import StateplanAdapter
from dbt.include import stateplan

__all__ = ["Plugin", "StateplanAdapter", "StateplanConnectionManager", "StateplanCredentials"]

Plugin = AdapterPlugin(
    adapter=StateplanAdapter,  # type: ignore[arg-type]  # the protocol is invariant in its classes
    credentials=StateplanCredentials,
    include_path=stateplan.PACKAGE_PATH,
    dependencies=[],
)
