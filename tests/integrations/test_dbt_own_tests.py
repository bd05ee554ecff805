"""dbt's own tests of adapters (dbt-tests-adapter), which run in long runs; and which of them do not apply, and why."""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.integrations.conftest import DBT
from tests.support.long_runs import LONG

if not LONG:
    pytest.skip("takes minutes: STATEPLAN_LONG=1 runs it", allow_module_level=True)
if not (DBT / ".installed").exists():
    pytest.skip("no dbt: make dbt", allow_module_level=True)
if str(DBT) not in sys.path:
    sys.path.append(str(DBT))

from dbt.tests.fixtures.project import *  # noqa: F403 - fixtures

del TestProcessingException  # noqa: F821 - a class of errors, which the line above imports

pytestmark = [pytest.mark.long, pytest.mark.filterwarnings("ignore")]

SNAPSHOTS = "snapshots are refused"
POSTGRES = "its models or its files are written in PostgreSQL's SQL"
NAMES = "names have a case"
GRANTS = "a gateway has no grants"
COMMENTS = "persist_docs has no effect"
REFUSED = {
    "BaseAliases": POSTGRES,
    "BaseSameAliasDifferentDatabases": POSTGRES,
    "BaseSameAliasDifferentSchemas": POSTGRES,
}
"""By class, why it does not apply."""


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"type": "stateplan", "method": "local", "path": str(tmp_path_factory.mktemp("lake")), "threads": 4}


@pytest.fixture(scope="class")
def profile_user() -> None:
    """A profile names no user."""


def _modules() -> list[ModuleType]:
    root = DBT / "dbt" / "tests" / "adapter"
    names = [path.relative_to(DBT).with_suffix("") for path in sorted(root.rglob("*.py")) if path.stem != "__init__"]
    return [importlib.import_module(".".join(name.parts)) for name in names]


def _is_test(name: str, value: object, module: ModuleType) -> bool:
    is_own = inspect.isclass(value) and value.__module__ == module.__name__
    return is_own and name.startswith("Base") and any(part.startswith("test") for part in dir(value))


def _fixture(value: object) -> Any:
    return pytest.fixture(scope="class")(lambda self: value)


def _expected_catalog(self: Any, project: Any) -> Any:
    from dbt.tests.adapter.basic import expected_catalog as catalog

    types = {"id_type": "BIGINT", "text_type": "STRING", "time_type": "TIMESTAMP(6)"}
    kinds = {"view_type": "view", "table_type": "table"}
    return catalog.base_expected_catalog(project, role=None, **types, **kinds, model_stats=catalog.no_stats())


def _expected_references(self: Any, project: Any) -> Any:
    from dbt.tests.adapter.basic import expected_catalog as catalog

    types = {"id_type": "BIGINT", "text_type": "STRING", "time_type": "TIMESTAMP(6)", "bigint_type": "BIGINT"}
    kinds = {"view_type": "view", "table_type": "table"}
    return catalog.expected_references_catalog(project, role=None, **types, **kinds, model_stats=catalog.no_stats())


CONTRACTS = {
    **dict.fromkeys(("string_type", "schema_string_type"), _fixture("STRING")),
    **dict.fromkeys(("int_type", "schema_int_type"), _fixture("INT")),
    "data_types": _fixture(
        [
            ("1", "INT", "INT"),
            ("'1'", "STRING", "STRING"),
            ("TRUE", "BOOLEAN", "BOOLEAN"),
            ("DATE '2013-11-03'", "DATE", "DATE"),
            ("TIMESTAMP '2013-11-03 00:00:00'", "TIMESTAMP(0)", "TIMESTAMP(0)"),
            ("CAST('1' AS DECIMAL(5, 2))", "DECIMAL(5, 2)", "DECIMAL(5, 2)"),
            ("ARRAY[1, 2]", "ARRAY<INT>", "ARRAY<INT>"),
        ]
    ),
}
ROLLBACK = {"expected_error_messages": _fixture(["NOT NULL"])}
OVERRIDES: dict[str, dict[str, Any]] = {
    "BaseDocsGenerate": {"expected_catalog": pytest.fixture(scope="class")(_expected_catalog)},
    "BaseDocsGenReferences": {"expected_catalog": pytest.fixture(scope="class")(_expected_references)},
    **dict.fromkeys(
        (
            "BaseConstraintsColumnsEqual",
            "BaseTableConstraintsColumnsEqual",
            "BaseViewConstraintsColumnsEqual",
            "BaseIncrementalConstraintsColumnsEqual",
        ),
        CONTRACTS,
    ),
    **dict.fromkeys(("BaseConstraintsRollback", "BaseIncrementalConstraintsRollback"), ROLLBACK),
    "BaseShowDoesNotHandleDoubleLimit": {"DATABASE_ERROR_MESSAGE": "SQL001"},
}
"""By class, what its tests are to expect: types, and the words of errors."""

for _module in _modules():
    for _name, _class in list(vars(_module).items()):
        if _is_test(_name, _class, _module) and _name not in REFUSED:
            _key = f"Test_{Path(str(_module.__file__)).parent.name}_{_name}"
            globals()[_key] = type(_key, (_class,), {"__module__": __name__, **OVERRIDES.get(_name, {})})
