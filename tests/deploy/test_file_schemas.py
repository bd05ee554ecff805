"""Files for other programs are valid by the schemas of schemastore.org."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support.schemas import problems

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.mark.parametrize(
    ("file", "schema_url"),
    [
        ("action.yml", "https://json.schemastore.org/github-action.json"),
        (
            "integrations/gitlab/stateplan-review.yml",
            "https://gitlab.com/gitlab-org/gitlab/-/raw/master/app/assets/javascripts/editor/schema/ci.json",
        ),
        ("deploy/helm/stateplan/Chart.yaml", "https://json.schemastore.org/chart.json"),
        ("deploy/prometheus/prometheus.yml", "https://json.schemastore.org/prometheus.json"),
        ("deploy/prometheus/alerts.yml", "https://json.schemastore.org/prometheus.rules.json"),
    ],
)
def test_a_file_is_valid(file: str, schema_url: str) -> None:
    document = list(yaml.safe_load_all((ROOT / file).read_text()))[-1]
    assert problems(document, schema_url) == []
    assert problems([document], schema_url) != [], "the schema refuses something"
