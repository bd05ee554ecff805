"""The tweaks that are settings of a Spark which is started for a job: what they are, and whether it has them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stateplan.runtime.memory import ROCKSDB
from stateplan.runtime.spark.tweaks import TWEAKS, Tweaks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_WORKER_ENV = "spark.executorEnv."
"""What settings of environment variables of workers begin with."""

_ROCKSDB_CONF = "org.apache.spark.sql.execution.streaming.state.RocksDBConf"
"""The class whose fields are RocksDB's settings, of which Spark keeps no list."""


def tweak_settings(tweaks: Tweaks) -> dict[str, Mapping[str, str]]:
    """The settings of the tweaks that are settings."""
    return {name: tweak.settings for name, tweak in TWEAKS.items() if tweak.settings and tweaks.on(name)}


def worker_variables(settings: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of workers among settings."""
    return {k.removeprefix(_WORKER_ENV): v for k, v in settings.items() if k.startswith(_WORKER_ENV)}


def probe(
    spark: SparkSession, settings_by_tweak: Mapping[str, Mapping[str, str]], settings: Mapping[str, str], tweaks: Tweaks
) -> None:
    """Takes back the settings of tweaks that do not work, except those of the user."""
    for name, own_settings in settings_by_tweak.items():
        if not tweaks.works(name, probe_settings, spark, own_settings):
            for key in own_settings.keys() - settings.keys():
                if key.startswith("spark.sql."):
                    spark.conf.unset(key)


def probe_settings(spark: SparkSession, settings: Mapping[str, str]) -> None:
    """Fails for a setting that Spark does not know, or the name of a class that it does not have."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
    for key, value in settings.items():
        if key.startswith(_WORKER_ENV):
            continue
        if value.startswith("org."):
            jvm.java.lang.Class.forName(value)
        elif key.startswith(ROCKSDB):
            jvm.java.lang.Class.forName(_ROCKSDB_CONF).getDeclaredField(key.removeprefix(ROCKSDB))
        elif jvm.org.apache.spark.internal.config.ConfigEntry.findEntry(key) is None:
            raise ValueError(f"it has no setting '{key}'")
