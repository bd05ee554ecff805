"""Measures stateplan next to Flink on the same machine and the same files."""
