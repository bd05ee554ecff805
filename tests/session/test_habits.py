"""What users of PyFlink and Spark type first: taken, or answered with what stands for it here."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import stateplan
from stateplan import EnvironmentSettings, PlanReference, StateplanError, TableEnvironment
from stateplan.common.errors import OptionError


def env() -> Any:
    return TableEnvironment.create()


def table() -> Any:
    return env().from_elements([(1, "tea")], ["id", "product"])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: env().sql, "write env.sql_query("),
        (lambda: env().execute, "write env.execute_sql("),
        (lambda: env().create_temporary_table, "tables are made by SQL here"),
        (lambda: env().excute_sql, "did you mean 'execute_sql'"),
        (lambda: table().select, "queries are SQL here"),
        (lambda: table().filter, "queries are SQL here"),
        (lambda: table().show, "write table.execute().print()"),
        (lambda: table().to_panda, "did you mean 'to_pandas'"),
        (lambda: env().execute_sql("SELECT 1").show, "write result.print()"),
    ],
)
def test_a_method_that_is_sql_here(call: Callable[[], Any], text: str) -> None:
    with pytest.raises(AttributeError) as caught:
        call()
    assert text in str(caught.value)


def test_probes_of_notebooks_find_nothing() -> None:
    assert not hasattr(table(), "_ipython_display_")
    assert not hasattr(env(), "__len__")


@pytest.mark.parametrize("hints", ["OF_ENVIRONMENT", "OF_TABLE", "OF_RESULT"])
def test_what_a_hint_names_exists(hints: str) -> None:
    from stateplan.session import habits

    owners = {"env": TableEnvironment, "table": stateplan.Table, "result": stateplan.TableResult}
    own = {"OF_ENVIRONMENT": "env", "OF_TABLE": "table", "OF_RESULT": "result"}[hints]
    for name, hint in getattr(habits, hints).items():
        assert not hasattr(owners[own], name), f"{name} exists, so nobody sees its hint"
        for owner, kind in owners.items():
            for word in hint.replace("(", " ").replace(".", " . ").split(f"{owner} . ")[1:]:
                attribute = word.split()[0].strip(",\"')")
                assert attribute in dir(kind) or attribute in kind.__dataclass_fields__, (name, hint)


def test_options_from_settings() -> None:
    assert (
        TableEnvironment.create(EnvironmentSettings.in_batch_mode()).get_config().get("execution.runtime-mode")
        == "batch"
    )
    built = (
        EnvironmentSettings.new_instance()
        .with_configuration({"table.exec.state.ttl": "1 h"})
        .in_streaming_mode()
        .build()
    )
    assert built.is_streaming_mode()
    assert TableEnvironment.create(built).get_config().to_dict() == {
        "execution.runtime-mode": "streaming",
        "table.exec.state.ttl": "1 h",
    }


@pytest.mark.parametrize(
    ("key", "given", "text"),
    [
        ("table.exec.state.ttl", timedelta(hours=1), "3600000 ms"),
        ("table.exec.state.ttl", 0, "0"),
        ("parallelism.default", 4, "4"),
        ("table.dml-sync", True, "true"),
        ("spark.sql.shuffle.partitions", 2, "2"),
    ],
)
def test_values_that_are_no_texts(key: str, given: Any, text: str) -> None:
    config = TableEnvironment.create({key: given}).get_config()
    assert config.to_dict() == {key: text}


@pytest.mark.parametrize(
    ("call", "code", "text"),
    [
        (lambda: env().get_config().set("table.exec.state.ttl", 3600), "OPT105", "write '3600 s' for seconds"),
        (lambda: env().get_config().set("table.exec.state.ttl", None), "OPT105", "expected: a duration"),
        (lambda: env().get_config().set("pipeline.name", timedelta(1)), "OPT105", "expected: a text"),
        (lambda: TableEnvironment.create("local"), "OPT007", "a dict of options"),
        (lambda: TableEnvironment.create(spark="local"), "OPT007", "'spark.master'"),
    ],
)
def test_arguments_of_other_types(call: Callable[[], Any], code: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        call()
    assert caught.value.code == code
    assert text in str(caught.value)


def test_a_spark_session_in_the_place_of_the_options() -> None:
    session: Any = type("SparkSession", (), {"__module__": "pyspark.sql.session"})()
    with pytest.raises(OptionError, match="of type SparkSession") as caught:
        TableEnvironment.create(session)
    assert "create(spark=spark)" in str(caught.value)


def test_a_plan_by_its_path(tmp_path: Path) -> None:
    tables = env()
    tables.execute_sql("CREATE TABLE t (a INT) WITH ('connector' = 'datagen', 'number-of-rows' = '1')")
    tables.execute_sql("CREATE TABLE s (a INT) WITH ('connector' = 'blackhole')")
    path = tmp_path / "plan.json"
    tables.compile_plan_sql("INSERT INTO s SELECT a FROM t").write_to_file(str(path))
    by_reference = tables.load_plan(PlanReference.from_file(path)).as_json_string()
    assert tables.load_plan(str(path)).as_json_string() == tables.load_plan(path).as_json_string() == by_reference


def test_a_notebook_shows_an_error_without_a_traceback() -> None:
    with pytest.raises(StateplanError) as caught:
        env().execute_sql("SELECT * FROM nowhere")
    assert caught.value._render_traceback_() == str(caught.value).splitlines()


def test_a_job_says_which_and_how_it_stands() -> None:
    result = env().execute_sql("SELECT 1")
    result.wait()
    assert repr(result.job) == f"LocalJob({result.job.job_id.replace('-', '')}, FINISHED)"


def test_an_object_of_a_session_shows_what_it_is() -> None:
    tables = TableEnvironment.create({"pipeline.name": "daily", "spark.hadoop.fs.s3a.secret.key": "hunter2"})
    options = "{'pipeline.name': 'daily', 'spark.hadoop.fs.s3a.secret.key': '******'}"
    assert repr(tables) == f"TableEnvironment(default_catalog.default_database, {options})"
    assert repr(tables.get_config()) == f"Configuration({options})"
    tables.execute_sql("CREATE TABLE s (a INT) WITH ('connector' = 'blackhole')")
    assert repr(tables.create_statement_set().add_insert_sql("INSERT INTO s SELECT 1")) == "StatementSet(1 INSERT)"
    assert repr(EnvironmentSettings.in_batch_mode()) == "EnvironmentSettings({'execution.runtime-mode': 'batch'})"


def test_every_public_method_has_a_docstring() -> None:
    without = []
    for name in stateplan.__all__:
        owner = getattr(stateplan, name)
        for attribute in dir(owner) if inspect.isclass(owner) else ():
            found = inspect.getattr_static(owner, attribute)
            found = found.__func__ if isinstance(found, (classmethod, staticmethod)) else found
            function = found.fget if isinstance(found, property) else found
            ours = inspect.isfunction(function) and function.__module__.startswith("stateplan")
            if ours and not attribute.startswith("_") and not function.__doc__:
                without.append(f"{name}.{attribute}")
    assert not without
