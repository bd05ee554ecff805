"""The part of a session that makes tables: of queries, and of rows of this process."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stateplan.common.zone import local_time_zone
from stateplan.planner.catalog.objects import DEFAULT_CATALOG, DEFAULT_DATABASE, ObjectIdentifier
from stateplan.session.elements import Schema
from stateplan.session.in_memory import of_arrow, of_elements, of_pandas, of_polars
from stateplan.session.session import Session
from stateplan.session.table import Table, in_memory, table_at, table_of, view_of

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


class Tables:
    """The methods of a session that make a :class:`Table`."""

    session: Session

    def sql_query(self, query: str) -> Table:
        """A query as a table; nothing is run.

        Raises:
            SqlError: SQL013, for a statement that is not a query.
            StateplanError: whatever is wrong with it.
        """
        return table_of(self.session, query)

    def from_path(self, path: str) -> Table:
        """A table or view by its name, as SQL writes it. Raises SqlError; CatalogError CAT002 to CAT004."""
        return table_at(self.session, path)

    def create_temporary_view(self, path: str, query: str | Table) -> None:
        """A temporary view over a query.

        Raises:
            CatalogError: CAT010, the name is taken; CAT071, the table is of another session.
            StateplanError: whatever is wrong with the query.
        """
        view_of(self.session, path, query)

    def from_arrow(self, data: Any, schema: Schema = None) -> Table:
        """Creates a bounded table from Arrow data.

        The rows are kept in a file of this process, for jobs of this machine, until the process ends. A plan with such
        a table cannot be written to a file.

        Args:
            data: a ``pyarrow`` Table, RecordBatch or RecordBatchReader, several batches, or whatever else has
                ``__arrow_c_stream__``.
            schema: names of the columns; or names and types, as :class:`DataTypes` makes a ROW, or its text. None for
                those of the data.

        Raises:
            StateplanError: as :func:`session.in_memory.of_arrow`.
        """
        return in_memory(self.session, of_arrow(_anonymous(self.session), data, schema, _zone(self.session)))

    def from_pandas(self, data: pd.DataFrame, schema: Schema = None) -> Table:
        """A bounded table of a ``pandas.DataFrame``, without its index. See :meth:`from_arrow`."""
        return in_memory(self.session, of_pandas(_anonymous(self.session), data, schema, _zone(self.session)))

    def from_polars(self, data: pl.DataFrame | pl.LazyFrame, schema: Schema = None) -> Table:
        """A bounded table of a ``polars.DataFrame``, or of what a LazyFrame gives. See :meth:`from_arrow`."""
        return in_memory(self.session, of_polars(_anonymous(self.session), data, schema, _zone(self.session)))

    def from_elements(self, elements: Iterable[Any], schema: Schema = None) -> Table:
        """A bounded table of Python rows: tuples, lists, dicts or ``Row``; or of values, for a single column. See
        :meth:`from_arrow`.

        Without types, those of the values are taken: BIGINT, DOUBLE, STRING, BOOLEAN, ``DECIMAL(38, 18)``,
        ``TIMESTAMP(6)``, with a zone ``TIMESTAMP_LTZ(6)``, and so on; without names, ``_1``, ``_2`` and so on.

        Raises:
            StateplanError: as :func:`session.in_memory.of_elements`.
        """
        return in_memory(self.session, of_elements(_anonymous(self.session), elements, schema))


def _anonymous(session: Session) -> ObjectIdentifier:
    """A name that no user can take for one of theirs, the same whenever a program runs."""
    names = ((DEFAULT_CATALOG, DEFAULT_DATABASE, f"*anonymous_arrow${number}*") for number in itertools.count(1))
    return ObjectIdentifier(*next(name for name in names if session.catalog.find(name) is None))


def _zone(session: Session) -> str:
    return local_time_zone(session.config.to_dict())
