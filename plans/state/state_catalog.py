"""A catalog whose tables are the state tables of a checkpoint: ``'type' = 'state'``.

Its only database is :data:`DATABASE`. A table is called by the selector of its state; where a state has several tables,
the others have their name behind ``$``. ``$changes`` behind the name of a table is what changed in it.
:data:`LOST_ROWS` is what an audit of the state recorded. Importing this loads no engine.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from stateplan.common.errors import CatalogError
from stateplan.common.options import Option, OptionType
from stateplan.connectors.catalogs import CatalogType, ExternalCatalog, ExternalColumn, ExternalTable
from stateplan.plans.state.state_connector import StateConnector
from stateplan.plans.state.state_options import CHANGES, LATEST, PATH, READS, SUFFIX, TABLE, UID, table_name

if TYPE_CHECKING:
    from stateplan.plans.state.reader import CheckpointReader
    from stateplan.plans.state.show import StateOf
    from stateplan.runtime.inspect.inspection import TableState

DATABASE = "job"
LOST_ROWS = "lost_rows"
"""The table of expired rows that were needed."""
_READ_ONLY = "SELECT reads it; the job that owns the checkpoint writes it"


class StateCatalogType(CatalogType):
    """``'type' = 'state'``."""

    name = "state"
    options = (Option("path", OptionType.STRING, "Path of the checkpoint. Its job may be running.", is_required=True),)
    paths = ("path",)

    def open(self, name: str, options: Mapping[str, str]) -> ExternalCatalog:
        return StateCatalog(name, options["path"])


class StateCatalog(ExternalCatalog):
    """The state tables of a checkpoint. All tables of a statement are read after the same micro-batch.

    Args:
        name: under which a session knows it.
        path: the checkpoint.
    """

    kind: ClassVar[str] = StateCatalogType.name

    def __init__(self, name: str, path: str) -> None:
        super().__init__(name, DATABASE)
        self._path = path
        self._current: CheckpointReader | None = None

    def __repr__(self) -> str:
        return f"StateCatalog({self.name!r}, {self._path!r})"

    def connect(self) -> None:
        """Raises StateplanError: as :func:`open_checkpoint`."""
        self.refresh()
        self._reader()

    def refresh(self) -> None:
        self._current = None

    def _reader(self) -> CheckpointReader:
        """The checkpoint after its last micro-batch, the same for all tables of a statement."""
        if self._current is None:
            from stateplan.plans.state.rooted_reader import open_checkpoint

            self._current = open_checkpoint(self._path)
        return self._current

    def databases(self) -> list[str]:
        return [DATABASE]

    def tables(self, database: str) -> list[str]:
        return [*self._tables(), LOST_ROWS] if database == DATABASE else []

    def _tables(self) -> dict[str, tuple[StateOf, TableState]]:
        """The state tables by name."""
        return {table_name(state, table): (state, table) for state in self._reader().states for table in state.tables}

    def table(self, database: str, name: str) -> ExternalTable | None:
        if database != DATABASE:
            return None
        if name == LOST_ROWS:
            return self._lost_rows()
        base = name.removesuffix(f"{SUFFIX}{CHANGES}")
        tables = self._tables()
        if base not in tables:
            return None
        from stateplan.plans.state.state_columns import StateSchema
        from stateplan.plans.state.state_source import table_columns

        reader, (state, table) = self._reader(), tables[base]
        schema = StateSchema.of(reader.document.graph, state.operator, table)
        options = {
            "connector": StateConnector.name,
            PATH: self._path,
            UID: state.operator.entry.uid,
            TABLE: table.table.name,
            LATEST: str(reader.snapshot.batch),
        }
        if base != name:
            options[READS] = CHANGES
        columns = [ExternalColumn(c.name, c.type, c.comment) for c in table_columns(schema, base != name)]
        comment = f"state '{base}' of {state.operator.node.title}" if base == name else f"changes of the state '{base}'"
        return ExternalTable(tuple(columns), options, comment=comment)

    def _lost_rows(self) -> ExternalTable:
        """The table of expired rows that were needed."""
        from stateplan.plans.state.lost_rows import COLUMNS, LostRowsConnector

        options = {
            "connector": LostRowsConnector.name,
            PATH: self._path,
            LATEST: str(self._reader().snapshot.batch),
        }
        columns = [ExternalColumn(c.name, c.type, c.comment) for c in COLUMNS]
        return ExternalTable(
            tuple(columns), options, comment="expired rows that were needed, with an audit of the state"
        )

    def refusal(self, action: str, hint: str | None = None) -> CatalogError:
        return super().refusal(action, hint or _READ_ONLY)
