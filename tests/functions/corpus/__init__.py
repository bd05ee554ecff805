"""The corpus of function results: what Flink 2.3 answers for every scalar function over a table of edge values."""
