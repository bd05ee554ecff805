"""What is known about the rows of a relation: predicates, unique keys, upsert keys, monotonicity.

Source: the ``FlinkRelMd*`` handlers of Flink's planner.
"""
