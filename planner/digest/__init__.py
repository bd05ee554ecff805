"""The texts by which Flink's plans describe operators and expressions."""
