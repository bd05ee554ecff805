"""dbt's own tests of adapters (dbt-tests-adapter), which run in long runs; and which of them do not apply, and why."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Iterator
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

REFUSED = {
    "snapshots are refused": """
        BaseSnapshotCheckCols BaseSnapshotTimestamp BaseSimpleSnapshot BaseSnapshotCheck BaseSnapshotColumnNames
        BaseSnapshotColumnNamesFromDbtProject BaseSnapshotDbtValidToCurrent BaseSnapshotInvalidColumnNames
        BaseSnapshotMultiUniqueKey BaseSnapshotNewRecordCheckMode BaseSnapshotNewRecordDbtValidToCurrent
        BaseSnapshotNewRecordTimestampMode BaseSnapshotEphemeralHardDeletes BaseSnapshotNewColumnSpecificCheckCols
        BaseSnapshotNewColumnTimestampStrategy BaseSnapshotNewColumnWithDeletes BasePrePostModelHooksOnSnapshots
        BasePrePostSnapshotHooksInConfigKwargs BaseSnapshotGrants BaseClonePossible BaseCloneNotPossible
        BaseCloneSameSourceAndTarget""",
    "grants, persist_docs and Python models are not supported": """
        BaseIncrementalGrants BaseInvalidGrants BaseModelGrants BaseSeedGrants BasePersistDocs
        BasePersistDocsAllColumnsMissing BasePersistDocsColumnMissing BasePersistDocsCommentOnQuotedColumn
        BasePersistDocsQuotedColumnCaseSensitive BasePersistDocsQuotedDescriptionNotAppliedOnMismatch
        BasePythonEmptyTests BasePythonIncrementalTests BasePythonMetaGetTests BasePythonModelTests
        BasePythonSampleTests BasePySparkTests""",
    "incremental models have the strategies append and merge, and no predicates": """
        BaseMergeExcludeColumns BaseMicrobatch BaseIncrementalPredicates BaseSampleModeTest""",
    "its models, hooks or seed files are written in PostgreSQL's SQL": """
        BaseAliases BaseSameAliasDifferentDatabases BaseSameAliasDifferentSchemas BasePostgresColumnTypes
        BaseIncrementalNotSchemaChange BaseDocsGenReferences BaseContractSqlHeader BaseTableContractSqlHeader
        BaseIncrementalContractSqlHeader BaseIncrementalForeignKeyConstraint BaseIncrementalUniqueKey
        BasePrePostModelHooks BaseHookRefs BasePrePostModelHooksOnSeeds BasePrePostModelHooksOnSeedsPlusPrefixed
        BasePrePostModelHooksOnSeedsPlusPrefixedWhitespace BasePrePostModelHooksInConfig
        BasePrePostModelHooksInConfigWithCount BasePrePostModelHooksInConfigKwargs BasePrePostRunHooks
        BaseSimpleCopyUppercase BaseBasicSeedTests BaseSeedConfigFullRefreshOff BaseSeedConfigFullRefreshOn
        BaseSeedCustomSchema BaseSeedParsing BaseSeedSpecificFormats BaseSeedWithEmptyDelimiter
        BaseSeedWithUniqueDelimiter BaseSeedWithWrongDelimiter BaseSimpleSeedEnabledViaConfig BaseSimpleSeedWithBOM
        BaseSimpleSeedColumnOverride BaseUnitTestInvalidInput BaseUnitTestQuotedReservedWordColumnNames
        BaseUnitTestingTypes BaseUnitTestingVarcharFixtureNoTruncation BaseChangeRelationTypeValidator
        BaseShowSqlHeader BaseDebugPostgres BaseDebugInvalidProjectPostgres""",
    "its models name columns by words that Flink reserves, or have a NULL without a type": """
        BaseDateAdd BaseDateDiff BaseLastDay BasePosition BaseReplace BaseBoolOr BaseDateTrunc BaseCurrentTimestamps
        BaseCastBoolToText BaseMixedNullCompare BaseNullCompare BaseEphemeralNested
        BaseStoreTestFailures""",
    "it expects the text of a statement, which has other words here": """
        BaseConstraintsRuntimeDdlEnforcement BaseIncrementalConstraintsRuntimeDdlEnforcement
        BaseModelConstraintsRuntimeEnforcement BaseConstraintQuotedColumn BaseEphemeralMulti""",
    "types or functions differ: numbers of seeds are BIGINT, LISTAGG has no order, and text is no timestamp": """
        BaseTypeInt BaseCurrentTimestampAware BaseListagg BaseDateSpine BaseGetIntervalsBetween BaseDate BaseSplitPart
        BaseArrayAppend BaseArrayConcat BaseArrayConstruct BaseEscapeSingleQuotesBackslash BaseDataTypeMacro""",
    "names have a case": "BaseCachingUppercaseModel BaseUnitTestCaseInsensivity",
    "it is a base of others, or of an optional part of an adapter": """
        BaseCachingTest BaseArrayUtils BaseGetCatalogForSingleRelation BaseCatalogIntegrationValidation
        BaseConstraintsColumnsEqual""",
}
"""Classes that do not apply, by the reason."""
NOT_RUN = {name for names in REFUSED.values() for name in names.split()}


@pytest.fixture(scope="class")
def dbt_profile_target(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return {"type": "stateplan", "method": "local", "path": str(tmp_path_factory.mktemp("lake")), "threads": 4}


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The folder of logs, which would be in that of the repository."""
    folder = str(tmp_path_factory.mktemp("logs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_LOG_PATH", folder)
        yield folder


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
    "BaseIncrementalOnSchemaChange": {"test_run_incremental_sync_all_columns": None},  # columns are never removed
}
"""By class, what its tests are to expect: types, and the words of errors."""

for _module in _modules():
    for _name, _class in list(vars(_module).items()):
        if _is_test(_name, _class, _module) and _name not in NOT_RUN:
            _key = f"Test_{Path(str(_module.__file__)).parent.name}_{_name}"
            globals()[_key] = type(_key, (_class,), {"__module__": __name__, **OVERRIDES.get(_name, {})})
