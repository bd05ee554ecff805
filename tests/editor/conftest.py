"""What the tests of the language server share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.editor.language_client import LanguageClient, language_client


@pytest.fixture(scope="session")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LanguageClient]:
    """A client with a server of its own: one for all tests, which use documents of other names."""
    with language_client(tmp_path_factory.mktemp("workspace")) as started:
        yield started
        assert started.stop() == 0
        assert not started.logs, "an internal error"
