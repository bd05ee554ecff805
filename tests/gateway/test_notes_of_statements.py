"""Which sentences for the user a gateway sends with the rows of a statement."""

from __future__ import annotations

import pytest

from stateplan.common.types import STRING
from stateplan.gateway.service.fetcher import ResultFetcher
from stateplan.session.results import content


@pytest.mark.parametrize(("statement", "notes"), [("DESCRIBE JOB", ("the plans differ",)), ("SHOW JOBS", ())])
def test_how_plans_differ_comes_with_the_last_page(statement: str, notes: tuple[str, ...]) -> None:
    fetcher = ResultFetcher(content(statement, ("job id",), [("a1",)], ["the plans differ"], types=(STRING,)))
    assert fetcher.notes_for(fetcher.fetch(0, 10)) == ()
    assert fetcher.notes_for(fetcher.fetch(1, 10)) == notes
