"""Binding: from syntax trees to the relational algebra, with every name resolved and every type inferred.

Source: Calcite's ``SqlValidatorImpl`` and ``SqlToRelConverter`` as Flink configures them; what is built here is what
Flink shows under ``== Abstract Syntax Tree ==``.

Codes: SQL100 to SQL149 for what is wrong, SQL150 for what is not supported yet.
"""
