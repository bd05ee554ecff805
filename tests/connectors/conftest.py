"""Tables and servers that several tests of connectors use."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.connectors.object_store import make_bucket, served

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


@pytest.fixture(scope="session")
def object_server() -> Iterator[dict[str, str]]:
    """The environment of a store that is running, with the bucket ``bkt``. It is a process of its own: libraries block
    this one while they wait."""
    with served() as environment:
        make_bucket(environment)
        yield environment
