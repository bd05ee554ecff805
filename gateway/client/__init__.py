"""A session at a gateway over HTTP: ours or Flink's."""
