"""The ``print`` connector: one line on standard output per change, such as ``+I[1, a]``.

The options are the rows of :data:`CONNECTOR`.
"""

from __future__ import annotations

from execnodes.connectors.options import Connector, Option, OptionType, Role

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    "print", "One line on standard output per change, as Flink prints it.",
    (
        Option("print-identifier", OptionType.STRING, "Text before every line, followed by '> '.", role=Role.SINK),
        Option("standard-error", OptionType.BOOLEAN, "Print to standard error instead.", default=False,
               role=Role.SINK),
        Option("sink.parallelism", OptionType.INTEGER, "Number of parallel writers.", role=Role.SINK, minimum=1,
               no_effect="one writer prints"),
    ),
    roles=(Role.SINK,))
