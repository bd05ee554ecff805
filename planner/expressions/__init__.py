"""Row expressions in the planner: building, simplifying and folding them the way Flink's planner does.

Source: Calcite's ``RexBuilder``, ``RexUtil`` and ``RexSimplify`` as Flink 2.3 configures them; checked against plans
that Flink wrote.
"""
