"""The connector of the tables of a catalog of state: reads a state table of a checkpoint, or what changed in it.

Importing this loads no engine.

Source of the names of options: FLIP-496 (``state.path``, ``operator.uid``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from stateplan.common.errors import OptionError, Place
from stateplan.common.options import Option, OptionType, Role, flag
from stateplan.connectors.formats.base import Fields
from stateplan.connectors.protocol import Connector, Source, SourceTable
from stateplan.connectors.time_travel import TimeTravel
from stateplan.functions.rex import Rex
from stateplan.plans.state.state_options import (
    AT,
    BATCH,
    CHANGES,
    FROM,
    LATEST,
    PATH,
    READS,
    ROWS,
    TABLE,
    TO,
    UID,
    WITH_EXPIRED,
)

if TYPE_CHECKING:
    from stateplan.plans.state.reader import CheckpointReader

_SOURCE = Role.SOURCE
_LONG, _STRING = OptionType.LONG, OptionType.STRING


class StateConnector(Connector, TimeTravel):
    """The rows of a state table."""

    name = "state"
    description = "The rows of a state table in a checkpoint. A catalog of type `state` creates such tables."
    options = (
        Option(PATH, _STRING, "Path of the checkpoint.", role=_SOURCE, is_required=True),
        Option(UID, _STRING, "The uid of the operator.", role=_SOURCE, is_required=True),
        Option(TABLE, _STRING, "The state table of the operator.", role=_SOURCE, is_required=True),
        Option(
            READS,
            OptionType.ENUM,
            "Whether the rows of the state are read, or the changes between two micro-batches.",
            default=ROWS,
            role=_SOURCE,
            values=(ROWS, CHANGES),
        ),
        Option(BATCH, _LONG, "Reads the state after this micro-batch. Default: the last one.", role=_SOURCE, minimum=0),
        Option(AT, _LONG, "The instant at which rows have expired or not, in ms since 1970.", role=_SOURCE),
        Option(LATEST, _LONG, "The last micro-batch when the statement was planned.", role=_SOURCE, minimum=0),
        Option(
            FROM,
            _LONG,
            "Of `$changes`: the micro-batch after which changes begin. Default: the one before `to-batch`.",
            role=_SOURCE,
            minimum=0,
        ),
        Option(
            TO,
            _LONG,
            "Of `$changes`: the last micro-batch with changes. Default: the last one.",
            role=_SOURCE,
            minimum=0,
        ),
        flag(WITH_EXPIRED, "Whether to read also expired rows that have not been removed yet.", _SOURCE),
    )
    roles = (Role.SOURCE,)
    abilities = frozenset({"ProjectPushDown", "FilterPushDown", "LimitPushDown"})
    history_gap = "the state in a checkpoint changes with the job that writes it"

    def takes_filters(self, options: Mapping[str, str], filters: Sequence[Rex]) -> tuple[Sequence[Rex], Sequence[Rex]]:
        from stateplan.plans.state.key_filters import is_choice

        return [f for f in filters if is_choice(f)], filters

    def check_schema(self, options: Mapping[str, str], fields: Fields, place: Place | None) -> None:
        """Raises OptionError OPT104, for options of changes of a table that has none."""
        of_changes = next((key for key in (FROM, TO) if key in options), None)
        if of_changes is not None and self.value(options, READS) == ROWS:
            raise OptionError("OPT104", key=of_changes, owner="state table without $changes", place=place)

    def as_of_version(self, options: Mapping[str, str], version: int) -> Mapping[str, str]:
        """Raises CheckpointError CKPT043, and as :func:`open_checkpoint`."""
        from stateplan.plans.state.kept_batches import commit_times

        reader = self._reader(options, version)
        return {BATCH: str(version), AT: str(commit_times(reader.snapshot, version)[version])}

    def as_of_time(self, options: Mapping[str, str], at: int) -> Mapping[str, str]:
        """Raises as :meth:`as_of_version`."""
        from stateplan.plans.state.kept_batches import batch_at

        return {BATCH: str(batch_at(self._reader(options).snapshot, at)), AT: str(at)}

    def without_version(self, options: Mapping[str, str]) -> Mapping[str, str]:
        return {key: text for key, text in options.items() if key != LATEST}

    def _reader(self, options: Mapping[str, str], batch: int | None = None, at: int | None = None) -> CheckpointReader:
        from stateplan.plans.state.rooted_reader import open_checkpoint

        return open_checkpoint(options[PATH], batch, at)

    def source(self, table: SourceTable) -> Source[Any]:
        """Raises CheckpointError: as :func:`open_checkpoint`; CKPT044, CKPT047, CKPT048, the checkpoint has no
        such state, or no such column."""
        from stateplan.plans.state.state_source import source_of

        batch = next((table.value(key) for key in (BATCH, TO, LATEST) if table.value(key) is not None), None)
        return source_of(self._reader(table.options, batch, table.value(AT)), table)
