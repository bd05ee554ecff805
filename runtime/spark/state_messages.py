"""Sends a value of a map state to the JVM. The bytes, and what a failure raises, are those of PySpark's
``MapStateClient.update_value``. That one passes each message to the constructor of the next, which copies it: a run
of 8 MB is copied six times. Here each part is set in its place, and the run is copied three times."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.map_state_client import MapStateClient
from pyspark.sql.streaming.stateful_processor_api_client import StatefulProcessorApiClient

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import MapState


def probe() -> None:
    """Raises AttributeError where PySpark lacks the calls that :func:`update_value` makes, or does not make them."""
    api = StatefulProcessorApiClient
    _ = api._serialize_to_bytes, api._send_proto_message, api._receive_proto_message  # noqa: SLF001
    _ = MapStateClient.update_value


def update_value(state: MapState, key: tuple[Any, ...], value: tuple[Any, ...]) -> None:
    """Stores a value.

    Raises:
        PySparkRuntimeError: as of ``MapState.updateValue``.
    """
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql.streaming.proto.StateMessage_pb2 import StateRequest

    client = state._mapStateClient  # noqa: SLF001 - PySpark has no other way
    api = client._stateful_processor_api_client  # noqa: SLF001
    request = StateRequest()
    call = request.stateVariableRequest.mapStateCall
    call.stateName = state._stateName  # noqa: SLF001
    call.updateValue.userKey = api._serialize_to_bytes(client.user_key_schema, key)  # noqa: SLF001
    call.updateValue.value = api._serialize_to_bytes(client.value_schema, value)  # noqa: SLF001
    api._send_proto_message(request.SerializeToString())  # noqa: SLF001
    status, error, _ = api._receive_proto_message()  # noqa: SLF001
    if status != 0:
        raise PySparkRuntimeError(f"Error updating map state value: {error}")
