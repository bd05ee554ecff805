"""The ``datagen`` connector: rows made up from the table's schema, for trying things out.

Row ``i`` has the same values in every run with the same seed. ``fields.<column>.kind`` is ``random`` (the default)
or ``sequence``; a sequence ends the table after its last value, ``number-of-rows`` after that many rows.

The options are the rows of :data:`CONNECTOR`.
"""

from __future__ import annotations

from execnodes.connectors.options import Connector, Option, OptionType, Role

__all__ = ["CONNECTOR"]

CONNECTOR = Connector(
    "datagen", "Random values and sequences made from the table's schema.",
    (
        Option("rows-per-second", OptionType.LONG, "How many rows to make per second.", default=10000, minimum=1),
        Option("number-of-rows", OptionType.LONG, "How many rows to make in all. Not set: without end.", minimum=0),
        Option("scan.parallelism", OptionType.INTEGER, "Number of parallel readers.", minimum=1,
               no_effect="rows do not depend on the number of readers"),
        Option("fields.#.kind", OptionType.ENUM, "How values of the column are made.", default="random",
               values=("random", "sequence")),
        Option("fields.#.min", OptionType.STRING, "Smallest random value. Not set: the smallest of the type."),
        Option("fields.#.max", OptionType.STRING, "Largest random value. Not set: the largest of the type."),
        Option("fields.#.max-past", OptionType.DURATION, "How far before now random timestamps go.", default=0),
        Option("fields.#.length", OptionType.INTEGER, "Length of random text, bytes or collections.", default=100,
               minimum=1),
        Option("fields.#.var-len", OptionType.BOOLEAN, "Whether the length is random up to 'length'.", default=False),
        Option("fields.#.null-rate", OptionType.FLOAT, "Share of values that are NULL, 0 to 1.", default=0.0),
        Option("fields.#.start", OptionType.STRING, "First value of a sequence."),
        Option("fields.#.end", OptionType.STRING, "Last value of a sequence."),
    ),
    roles=(Role.SOURCE,), abilities=frozenset({"LimitPushDown"}))
