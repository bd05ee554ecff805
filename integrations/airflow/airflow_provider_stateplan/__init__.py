"""Operators of Airflow for jobs of stateplan."""

from __future__ import annotations

from typing import Any


def provider_info() -> dict[str, Any]:
    """What Airflow knows about the provider."""
    return {
        "package-name": "airflow-provider-stateplan",
        "name": "stateplan",
        "description": "Jobs of stateplan at a gateway.",
        "connection-types": [
            {
                "connection-type": "stateplan",
                "hook-class-name": "airflow_provider_stateplan.hooks.StateplanHook",
            }
        ],
    }
