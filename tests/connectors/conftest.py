"""Tables that several tests of connectors read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.postgres import Database


@pytest.fixture
def items(database: Database) -> Database:
    database.execute(
        "CREATE TABLE items (id int PRIMARY KEY, note text)",
        "ALTER TABLE items REPLICA IDENTITY FULL",
        "INSERT INTO items SELECT g, 'n' || g FROM generate_series(1, 5) AS g",
    )
    return database
