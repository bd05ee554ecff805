"""The tweaks inside the JVM of a Spark that was started for the job, compiled by Janino, which Spark compiles queries
with. :data:`execnodes.runtime.spark.tweaks.TWEAKS` says what each is for. Each is compiled by itself: a class that is
missing takes one tweak away."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stateplan.execnodes.runtime.spark.tweaks import Tweaks

CLASSES = {
    "local-files": "LocalFiles",
    "rule-counts": "RuleCounts",
    "session-options": "SessionOptions",
    "hadoop-defaults": "HadoopDefaults",
}
"""Tweak to its class; ``java/`` has the sources."""

_OF_QUERIES = ("session-options", "hadoop-defaults")
"""What the start of a query undoes: Spark makes a session for each, which takes the options from threads without one,
and Hadoop reads defaults when a class first needs them."""

_classes: dict[str, Any] = {}
"""Source to compiled class."""

_adapted: dict[str, dict[str, Any]] = {}
"""Id of a Spark application that :func:`adapt` was called for -> the Java classes of its :data:`_OF_QUERIES`."""


def adapt(spark: SparkSession, tweaks: Tweaks) -> None:
    """Sets up a Spark on this machine that was started for the job."""
    if spark.conf.get("spark.ui.enabled") == "false":
        tweaks.attempt("ui-listeners", _forget_pages, spark)
    tweaks.attempt("rule-counts", _count_no_rules, spark)
    tweaks.attempt("local-files", _use_files, spark)
    made = {name: tweaks.attempt(name, _compiled, spark, name) for name in _OF_QUERIES}
    _adapted.clear()
    _adapted[spark.sparkContext.applicationId] = {name: ours for name, ours in made.items() if ours is not None}


def adapt_query(spark: SparkSession, tweaks: Tweaks) -> None:
    """Sets up a query that has just started, where :func:`adapt` set up its Spark."""
    for name, ours in _adapted.get(spark.sparkContext.applicationId, {}).items():
        tweaks.attempt(name, _set_up_query, spark, ours)


def _set_up_query(spark: SparkSession, ours: Any) -> None:
    ours.newInstance().adapt(_java(spark))


def _count_no_rules(spark: SparkSession) -> None:
    _compiled(spark, "rule-counts").newInstance().adapt(_java(spark))


def _java(spark: SparkSession) -> Any:
    return spark._jsparkSession  # noqa: SLF001 - PySpark has no other way to the JVM


def _compiled(spark: SparkSession, tweak: str) -> Any:
    """The class of a tweak, in a class loader of its own. There is one in this process: Py4J remembers methods by the
    names of their classes."""
    source = _source(CLASSES[tweak])
    if source not in _classes:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as above
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(_java(spark).getClass().getClassLoader())
        compiler.cook(source)
        _classes[source] = compiler.getClassLoader().loadClass(f"stateplan.{CLASSES[tweak]}")
    return _classes[source]


def _source(name: str) -> str:
    return files(__package__).joinpath("java", f"{name}.java").read_text("utf-8")


def _use_files(spark: SparkSession) -> None:
    """Puts our file system into Hadoop's cache of them and not into the configuration: whoever makes a new instance
    gets Hadoop's own."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as above
    hadoop = _java(spark).sparkContext().hadoopConfiguration()
    configuration = jvm.org.apache.hadoop.conf.Configuration(hadoop)
    ours = _compiled(spark, "local-files")
    configuration.setClassLoader(ours.getClassLoader())
    configuration.set("fs.file.impl", ours.getName())
    root = jvm.java.net.URI("file:///")
    systems = jvm.org.apache.hadoop.fs.FileSystem
    systems.get(root, hadoop).close()  # takes it out of the cache
    made = systems.get(root, configuration).getClass().getName()
    if made != ours.getName():
        raise ValueError(f"Hadoop made a {made}")


def _forget_pages(spark: SparkSession) -> None:
    """Takes those from Spark's listeners that keep what its web interface shows."""
    context = _java(spark).sparkContext()
    for store in (context.statusStore(), _java(spark).sharedState().statusStore()):
        if store.listener().isDefined():
            context.removeSparkListener(store.listener().get())
