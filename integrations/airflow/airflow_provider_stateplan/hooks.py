"""The connection of Airflow to a gateway."""

from __future__ import annotations

from typing import Any

from airflow.sdk import BaseHook

from airflow_provider_stateplan.gateway import Gateway, GatewayError


class StateplanHook(BaseHook):
    """A connection to a gateway: host, port, schema (``http`` or ``https``), and the token as password. ``ca_file`` in
    the extras names certificates to trust.

    Args:
        conn_id: the id of the connection.
    """

    conn_name_attr = "conn_id"
    default_conn_name = "stateplan_default"
    conn_type = "stateplan"
    hook_name = "stateplan"

    def __init__(self, conn_id: str = default_conn_name, **more: Any) -> None:
        super().__init__(**more)
        self.conn_id = conn_id

    def get_conn(self) -> Gateway:
        """The gateway."""
        connection = self.get_connection(self.conn_id)
        host = connection.host or "localhost"
        url = host if "://" in host else f"{connection.schema or 'http'}://{host}:{connection.port or 8083}"
        return Gateway(url, connection.password or None, connection.extra_dejson.get("ca_file"))

    @staticmethod
    def get_ui_field_behaviour() -> dict[str, Any]:
        """What Airflow's page calls the fields."""
        return {"hidden_fields": ["login"], "relabeling": {"password": "Token", "schema": "http or https"}}

    def test_connection(self) -> tuple[bool, str]:
        """Whether the gateway answers."""
        try:
            jobs = self.get_conn().jobs()
        except GatewayError as error:
            return False, str(error)
        return True, f"{len(jobs)} jobs"
