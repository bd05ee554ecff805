"""The relational algebra between SQL and the exec graph."""
