"""The tweaks inside the JVM of a Spark, most of them of one that was started for the job; ``tweaks.py`` describes them.

Spark's own compiler, Janino, compiles each class separately, so that a missing class of Spark removes one tweak only.
"""

from __future__ import annotations

import contextlib
import threading
from importlib.resources import files
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stateplan.runtime.spark.tweaks import Tweaks

CLASSES = {
    "local-files": "LocalFiles",
    "rule-counts": "RuleCounts",
    "state-bytes": "StateBytes",
    "session-options": "SessionOptions",
    "hadoop-defaults": "HadoopDefaults",
    "stored-state": "StoredState",
    "idle-heap": "IdleHeap",
    "coded-failures": "CodedFailures",
}
"""Tweak to its class; ``java/`` has the sources."""

_OF_QUERIES = ("session-options", "hadoop-defaults", "idle-heap")
"""Tweaks of each query. The start of a query undoes the first two: Spark creates a session for it, which changes the
options of threads without a session; and Hadoop reads its defaults again when it loads certain classes."""

_ADAPTED = ("rule-counts", "state-bytes", "local-files", *_OF_QUERIES)
"""The tweaks of :func:`adapt` that have a class, in their order."""

_SESSION = "org.apache.spark.sql.classic.SparkSession"

_classes: dict[str, Any] = {}
"""Source to compiled class."""

_compiling = threading.Lock()

_guests: set[str] = set()
"""Application ids of Sparks that :func:`filter_log` has set up."""

_adapted: dict[str, dict[str, Any]] = {}
"""Application id of a Spark that :func:`adapt` has set up -> the Java classes of its :data:`_OF_QUERIES`."""


def adapt(spark: SparkSession, tweaks: Tweaks) -> None:
    """Sets up a Spark on this machine that was started for the job."""
    if spark.conf.get("spark.ui.enabled") == "false":
        tweaks.attempt("ui-listeners", _forget_pages, spark)
    for name in ("rule-counts", "state-bytes"):
        tweaks.attempt(name, _adapt_with, spark, name)
    tweaks.attempt("local-files", _use_files, spark)
    classes = {name: tweaks.attempt(name, compiled, spark, name) for name in _OF_QUERIES}
    _adapted.clear()
    _adapted[spark.sparkContext.applicationId] = {name: ours for name, ours in classes.items() if ours is not None}


def forget_classes() -> None:
    """The JVM that had them is gone."""
    _classes.clear()
    _adapted.clear()
    _guests.clear()


def adapt_query(spark: SparkSession, tweaks: Tweaks) -> None:
    """Sets up a query that has just started, where :func:`adapt` set up its Spark."""
    for name, ours in _adapted.get(spark.sparkContext.applicationId, {}).items():
        tweaks.attempt(name, _set_up_query, spark, ours)


def filter_log(spark: SparkSession, tweaks: Tweaks) -> None:
    """Keeps failures that a job raises in Python, with a code, out of the log of a Spark that the user started."""
    if spark.sparkContext.applicationId not in _guests:
        _guests.add(spark.sparkContext.applicationId)
        tweaks.attempt("coded-failures", _adapt_with, spark, "coded-failures")


def _set_up_query(spark: SparkSession, ours: Any) -> None:
    ours.newInstance().adapt(_java(spark))


def _adapt_with(spark: SparkSession, tweak: str) -> None:
    compiled(spark, tweak).newInstance().adapt(_java(spark))


def _java(spark: SparkSession) -> Any:
    return spark._jsparkSession  # noqa: SLF001 - PySpark has no other way to the JVM


def compile_ahead(tweaks: Tweaks) -> None:
    """Begins to compile the classes of :func:`adapt` in a JVM whose Spark is just being started, which leaves a core to
    this. A class that fails here fails again where it is used, and that is reported."""
    sources = {name: _source(CLASSES[name]) for name in _ADAPTED if tweaks.on(name)}

    def compile_all() -> None:
        from pyspark import SparkContext

        jvm: Any = SparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
        for name, source in sources.items():
            with contextlib.suppress(Exception):
                loader = jvm.java.lang.Class.forName(_SESSION).getClassLoader()
                _compiled(jvm, name, source, loader)

    threading.Thread(target=compile_all, name="compile-ahead", daemon=True).start()


def compiled(spark: SparkSession, tweak: str) -> Any:
    """The class of a tweak, in its own class loader. It is compiled once per process, because Py4J caches methods by
    class name."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as above
    return _compiled(jvm, tweak, _source(CLASSES[tweak]), _java(spark).getClass().getClassLoader())


def _compiled(jvm: Any, tweak: str, source: str, loader: Any) -> Any:
    with _compiling:
        if source not in _classes:
            compiler = jvm.org.codehaus.janino.SimpleCompiler()
            compiler.setParentClassLoader(loader)
            compiler.cook(source)
            _classes[source] = compiler.getClassLoader().loadClass(f"stateplan.{CLASSES[tweak]}")
        return _classes[source]


def _source(name: str) -> str:
    return files(__package__).joinpath("java", f"{name}.java").read_text("utf-8")


def _use_files(spark: SparkSession) -> None:
    """Replaces the local file system in Hadoop's cache. The configuration stays: new instances are Hadoop's own."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as above
    hadoop = _java(spark).sparkContext().hadoopConfiguration()
    configuration = jvm.org.apache.hadoop.conf.Configuration(hadoop)
    ours = compiled(spark, "local-files")
    configuration.setClassLoader(ours.getClassLoader())
    configuration.set("fs.file.impl", ours.getName())
    root = jvm.java.net.URI("file:///")
    systems = jvm.org.apache.hadoop.fs.FileSystem
    systems.get(root, hadoop).close()  # takes it out of the cache
    class_name = systems.get(root, configuration).getClass().getName()
    if class_name != ours.getName():
        raise ValueError(f"Hadoop made a {class_name}")


def _forget_pages(spark: SparkSession) -> None:
    """Removes the listeners that record data for the pages of the web interface."""
    context = _java(spark).sparkContext()
    for store in (context.statusStore(), _java(spark).sharedState().statusStore()):
        if store.listener().isDefined():
            context.removeSparkListener(store.listener().get())
