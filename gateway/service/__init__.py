"""Flink's SQL gateway without the network: sessions, operations, results by page, and the jobs that outlive them."""
