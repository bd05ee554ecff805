"""What users of PyFlink and Spark type first: settings of a session as objects, and a hint for methods of theirs that
are SQL here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, TypeAlias

from stateplan.common.errors import OptionError, nearest
from stateplan.common.settings import Configuration

_RUNTIME_MODE = "execution.runtime-mode"


class EnvironmentSettings:
    """The options that a session starts with. Source: PyFlink's class of this name.

    >>> EnvironmentSettings.in_streaming_mode().get_configuration().to_dict()
    {'execution.runtime-mode': 'streaming'}
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        self._configuration = Configuration(options)

    @classmethod
    def in_streaming_mode(cls) -> EnvironmentSettings:
        """Settings of a session whose queries run without an end where their input has none."""
        return cls({_RUNTIME_MODE: "streaming"})

    @classmethod
    def in_batch_mode(cls) -> EnvironmentSettings:
        """Settings of a session whose queries read bounded input and give final rows."""
        return cls({_RUNTIME_MODE: "batch"})

    @staticmethod
    def new_instance() -> EnvironmentSettingsBuilder:
        """A builder, which starts in streaming mode."""
        return EnvironmentSettingsBuilder()

    def get_configuration(self) -> Configuration:
        """The options."""
        return self._configuration

    def is_streaming_mode(self) -> bool:
        """Whether the session runs in streaming mode."""
        return self._configuration.get(_RUNTIME_MODE, "streaming") != "batch"

    def __repr__(self) -> str:
        return f"EnvironmentSettings({self._configuration.redacted()})"


class EnvironmentSettingsBuilder:
    """Makes :class:`EnvironmentSettings` step by step. Source: PyFlink's ``EnvironmentSettings.Builder``."""

    def __init__(self) -> None:
        self._options: dict[str, Any] = {}

    def in_streaming_mode(self) -> EnvironmentSettingsBuilder:
        """As :meth:`EnvironmentSettings.in_streaming_mode`; returns this builder."""
        return self.with_configuration({_RUNTIME_MODE: "streaming"})

    def in_batch_mode(self) -> EnvironmentSettingsBuilder:
        """As :meth:`EnvironmentSettings.in_batch_mode`; returns this builder."""
        return self.with_configuration({_RUNTIME_MODE: "batch"})

    def with_configuration(self, configuration: Configuration | Mapping[str, Any]) -> EnvironmentSettingsBuilder:
        """Adds options; returns this builder."""
        self._options |= configuration.to_dict() if isinstance(configuration, Configuration) else configuration
        return self

    def build(self) -> EnvironmentSettings:
        """The settings. Raises OptionError, as :meth:`Configuration.set`."""
        return EnvironmentSettings(self._options)


Settings: TypeAlias = Mapping[str, Any] | Configuration | EnvironmentSettings
"""What a session can be created with."""


def options_of(settings: Settings | None) -> Mapping[str, Any]:
    """The options in the first argument of ``TableEnvironment.create``.

    Raises:
        OptionError: OPT007, when it has none: Spark's session stands there, or a text.
    """
    if isinstance(settings, EnvironmentSettings):
        settings = settings.get_configuration()
    if isinstance(settings, Configuration):
        return settings.to_dict()
    if settings is None or isinstance(settings, Mapping):
        return settings or {}
    raise OptionError(
        "OPT007",
        given=type(settings).__name__,
        expected="a dict of options, or EnvironmentSettings",
        hint="write TableEnvironment.create(spark=spark)" if is_spark_session(settings) else None,
    )


def check_spark(spark: object) -> None:
    """Raises OptionError OPT007 when ``spark`` is given and is not a session of Spark."""
    if spark is None or is_spark_session(spark):
        return
    raise OptionError(
        "OPT007.spark",
        given=repr(spark)[:60],
        hint="write TableEnvironment.create({'spark.master': 'local[2]'}) for a master"
        if isinstance(spark, str)
        else None,
    )


def is_spark_session(candidate: object) -> bool:
    """Whether it is a ``SparkSession``, classic or of Spark Connect. Imports no PySpark."""
    return any(
        kind.__name__ == "SparkSession" and kind.__module__.startswith("pyspark.") for kind in type(candidate).__mro__
    )


class AttributeHints:
    """A class whose AttributeError says what is here for a method of PyFlink's or Spark's."""

    _REPLACEMENTS: ClassVar[Mapping[str, str]] = {}

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            text = f"{type(self).__name__!r} has no attribute {name!r}"
            if not name.startswith("_"):
                hint = self._REPLACEMENTS.get(name) or nearest(name, [n for n in dir(type(self)) if n[0] != "_"])
                text += f"; {hint}" if hint else ""
            raise AttributeError(text, name=name, obj=self)


_BY_SQL = 'queries are SQL here: env.sql_query(f"SELECT ... FROM {table} WHERE ...")'
_BY_DDL = "tables are made by SQL here: env.execute_sql(\"CREATE TABLE ... WITH ('connector' = ...)\")"

OF_TABLE: Mapping[str, str] = {
    **dict.fromkeys(
        (
            "add_columns", "agg", "aggregate", "alias", "distinct", "drop", "drop_columns", "dropDuplicates", "except_",
            "fetch", "filter", "flat_aggregate", "flat_map", "full_outer_join", "group_by", "groupBy", "groupby",
            "intersect", "join", "join_lateral", "left_outer_join", "limit", "map", "minus", "offset", "order_by",
            "orderBy", "over_window", "rename_columns", "right_outer_join", "select", "selectExpr", "sort", "union",
            "union_all", "unionAll", "where", "window", "withColumn", "withWatermark",
        ),
        _BY_SQL,
    ),
    "show": "write table.execute().print()",
    "collect": "write table.execute().collect()",
    "count": _BY_SQL.replace("... FROM {table} WHERE ...", "COUNT(*) FROM {table}"),
    "toPandas": "write table.to_pandas()",
    "toArrow": "write table.to_arrow()",
    "printSchema": "write table.print_schema()",
    "schema": "write table.get_schema()",
    "columns": "write table.get_schema()",
    "createOrReplaceTempView": 'write env.create_temporary_view("name", table)',
    "createTempView": 'write env.create_temporary_view("name", table)',
    **dict.fromkeys(("insert_into", "write", "writeStream", "writeTo"), 'write table.execute_insert("name")'),
}  # fmt: skip
"""What is here for methods of a ``Table`` of PyFlink, and of a ``DataFrame`` of Spark."""

OF_ENVIRONMENT: Mapping[str, str] = {
    "sql": 'write env.sql_query("SELECT ...") for a query, or env.execute_sql("...") for any statement',
    "sql_update": 'write env.execute_sql("...")',
    "execute": 'write env.execute_sql("...")',
    "table": 'write env.from_path("name")',
    "scan": 'write env.from_path("name")',
    **dict.fromkeys(
        ("create_table", "create_temporary_table", "from_descriptor", "read", "readStream", "from_data_stream"), _BY_DDL
    ),
    "createDataFrame": "write env.from_pandas(frame), from_polars, from_arrow or from_elements",
    **dict.fromkeys(
        ("register_function", "udf", "create_java_temporary_function"),
        'write env.create_temporary_function("name", function)',
    ),
    "explain": 'write env.explain_sql("SELECT ...")',
    "add_insert_sql": "write env.create_statement_set().add_insert_sql(...)",
    "compile_plan": 'write env.compile_plan_sql("INSERT INTO ...")',
    "conf": "write env.get_config()",
    "stop": "write result.job.stop() for a job",
}
"""What is here for methods of PyFlink's ``TableEnvironment``, and of Spark's ``SparkSession``."""

OF_RESULT: Mapping[str, str] = {
    "show": "write result.print()",
    "toPandas": "write result.to_pandas()",
    "toArrow": "write result.to_arrow()",
    "fetchall": "write list(result.collect())",
    "awaitTermination": "write result.wait()",
    "stop": "write result.job.stop()",
    "get_schema": "see result.columns and result.types",
    "get_table_schema": "see result.columns and result.types",
}
"""What is here for methods of a result of PyFlink, Spark and the DB-API."""
