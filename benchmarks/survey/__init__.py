"""What users get: the time to the first row, latency, memory, throughput, next to Flink, Spark's own operators and
Pathway.

``python -m benchmarks.survey`` measures and writes the page; see :mod:`.__main__`. One module has each part:
:mod:`.streams` (first row, latency, idle memory), :mod:`.commands` (the command line), :mod:`.scripts` (throughput).
:mod:`.peers` starts the engines.
"""
