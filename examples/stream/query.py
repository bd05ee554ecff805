"""Runs a statement in the database ``shop`` and prints its rows, as ``psql shop -c STATEMENT`` does.

Run as ``python -m examples.stream.query STATEMENT``. The variables are those of ``psql``: ``PGHOST``, ``PGPORT``,
``PGUSER``, ``PGPASSWORD``.
"""

from __future__ import annotations

import sys

import adbc_driver_postgresql.dbapi as adbc

from examples.demo import table


def main(statement: str) -> None:
    is_query = statement.lstrip().upper().startswith("SELECT")
    with adbc.connect("dbname=shop", autocommit=True) as connection, connection.cursor() as cursor:
        if not is_query:
            cursor.adbc_statement.set_options(**{"adbc.postgresql.use_copy": False})
        cursor.execute(statement)
        if is_query:
            table([column[0] for column in cursor.description or ()], cursor.fetchall())


if __name__ == "__main__":
    main(sys.argv[1])
