"""Flink's SQL gateway REST API, versions 1 to 4, over the service."""
