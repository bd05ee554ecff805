"""Tables of a test: declared without a connector, read and written by ``stateplan test``.

A plan knows which changes such a table has. Its rows are in the test file, so nothing can read or write it elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from stateplan.common.changelog import INSERT_ONLY, MODES, ChangelogMode
from stateplan.common.options import Option, OptionType, Role
from stateplan.connectors.protocol import Connector

NAME = "table of a test"
CHANGELOG_MODE = "changelog-mode"


class TableOfTest(Connector):
    """A table of a test."""

    name = NAME
    options = (
        Option(
            CHANGELOG_MODE,
            OptionType.ENUM,
            "Changes of the table. Default: only +I where it is read, and those of the query where it is written.",
            values=("retract", "upsert", "upsert-key-delete", "append"),
            exact=True,
        ),
    )
    roles = (Role.SOURCE, Role.SINK)
    can_look_up = True
    abilities = frozenset({"ProjectPushDown", "ReadingMetadata"})
    records_metadata = True

    def source_mode(self, options: Mapping[str, str]) -> ChangelogMode:
        mode = self.value(options, CHANGELOG_MODE)
        return INSERT_ONLY if mode is None else MODES[mode]

    def sink_mode(self, options: Mapping[str, str], changelog_mode: ChangelogMode) -> ChangelogMode:
        mode = self.value(options, CHANGELOG_MODE)
        return changelog_mode if mode is None else MODES[mode]

    def gives_key_deletes(self, options: Mapping[str, str]) -> bool:
        return options.get(CHANGELOG_MODE) == "upsert-key-delete"

    def takes_key_deletes(self, options: Mapping[str, str]) -> bool:
        return options.get(CHANGELOG_MODE) == "upsert-key-delete"
