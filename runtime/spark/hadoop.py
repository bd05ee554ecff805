"""Hadoop's file systems for the driver: what Spark's checkpoint lies on, the rest of a checkpoint lies on too.

``hdfs:``, ``viewfs:``, ``s3a:``, ``gs:``, ``abfss:`` and whatever else Spark has libraries for, through the JVM of
Spark. A path without a scheme is on Hadoop's default file system (``fs.defaultFS``), as in Spark.

Codes: CKPT006, CKPT052; those of tables, DATA107 and DATA108.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from stateplan.common.errors import CheckpointError
from stateplan.common.failure_reasons import REASONS, first_answer
from stateplan.common.files import UrlError, absolute, has_scheme, place_of, refused_url, scheme_of
from stateplan.common.paths import AnyPath, RemotePath
from stateplan.runtime.spark.java import require_java
from stateplan.runtime.spark.jvm_loss import is_of_spark, jvm_loss_behind
from stateplan.runtime.spark.launch import check_environment
from stateplan.runtime.spark.master import site
from stateplan.runtime.spark.session import known_settings, quietly, running_context, start_error
from stateplan.runtime.spark.tweaks import reason

_DEFAULT = "fs.defaultFS"
CHECKPOINT_DIR = "execution.checkpointing.dir"
_READ_ONLY = {"http", "https"}
"""Schemes of which Hadoop reads files, and has neither folders nor anything to write with."""
_HADOOP = "spark.hadoop."
_NO_PATH = {
    "nul": "a path has no NUL character",
    "host": "a URL with 'file:' names no other host",
    "empty": "the URL has no path",
}
"""What a UrlError of a local path means."""


def checkpoint_path(text: str, options: Mapping[str, str]) -> AnyPath:
    """The folder of a checkpoint: on local disk, or on a file system of Hadoop, which starts a JVM if there is none.

    Args:
        text: a path or a URL.
        options: the options of the session.

    Raises:
        CheckpointError: CKPT006, Spark has no file system for it; CKPT052, it cannot be reached; CKPT001, it refuses.
    """
    try:
        local = place_of(text)
    except UrlError as error:
        raise CheckpointError("CKPT001", folder=text, strerror=_NO_PATH[error.why]) from None
    if local is not None and (has_scheme(text) or default_file_system(options).startswith("file:")):
        return Path(absolute(local))
    return hadoop_path(text, options)


def is_remote(options: Mapping[str, str]) -> bool:
    """Whether the checkpoint of a job is on a file system of Hadoop that is not the local one."""
    text = options.get(CHECKPOINT_DIR)
    if text is None:
        return False
    if has_scheme(text):
        return scheme_of(text) != "file"
    return not default_file_system(options).startswith("file:")


def default_file_system(options: Mapping[str, str]) -> str:
    """Hadoop's default file system, from a running Spark, the options, ``spark-defaults.conf`` or ``core-site.xml``."""
    context = running_context()
    if context is not None:
        return str(_configuration(options).get(_DEFAULT))
    key = _HADOOP + _DEFAULT
    address = options.get(key) or known_settings().get(key)
    folder = os.environ.get("HADOOP_CONF_DIR")
    if address is None and folder:
        address = site(Path(folder, "core-site.xml")).get(_DEFAULT)
    return address or "file:///"


def _jvm() -> Any:
    """The JVM of Spark, or one that has its libraries. Raises RunError RUN010, RUN011."""
    from pyspark import SparkContext

    if SparkContext._gateway is None:  # noqa: SLF001 - PySpark has no other way to the JVM
        check_environment()
        require_java()
        with quietly() as log:
            try:
                SparkContext._ensure_initialized()  # noqa: SLF001
            except Exception as cause:
                if isinstance(cause, OSError) or is_of_spark(cause):
                    raise start_error(cause, "local", known_settings(), (), log) from cause
                raise
    return SparkContext._jvm  # noqa: SLF001


def _configuration(options: Mapping[str, str]) -> Any:
    """Hadoop's options: those of a running Spark, or what they would be."""
    context = running_context()
    if context is not None:
        return context._jsc.hadoopConfiguration()  # noqa: SLF001 - PySpark has no other way to them
    configuration = _jvm().org.apache.hadoop.conf.Configuration()
    for key, value in {**known_settings(), **options}.items():
        if key.startswith(_HADOOP):
            configuration.set(key.removeprefix(_HADOOP), value)
    return configuration


def _ask(path: Any, configuration: Any) -> None:
    """Asks the file system of a path for it. Raises RunError RUN019, and what PySpark raises."""
    try:
        path.getFileSystem(configuration).getFileStatus(path)
    except Exception as cause:
        jvm_error = jvm_loss_behind(cause)
        if jvm_error is not None:
            raise jvm_error from cause
        raise


def hadoop_path(text: str, options: Mapping[str, str]) -> RemotePath:
    """A path on a file system of Hadoop. Raises CheckpointError CKPT001, CKPT006, CKPT052; RunError RUN019."""
    if has_scheme(text) and scheme_of(text) in _READ_ONLY:
        raise CheckpointError("CKPT006.read_only", folder=text, scheme=scheme_of(text))
    try:
        return _reached_path(text, options)
    except UrlError as error:
        values = error.values
        if error.why == "missing":
            raise CheckpointError("CKPT006", folder=text, scheme=values["scheme"]) from error
        if error.why == "unreached":
            raise CheckpointError("CKPT052", folder=text, why=values["what"], what=values["reason"]) from error
        raise CheckpointError("CKPT001", folder=text, strerror=values["reason"]) from error


def table_path(path: str, options: Mapping[str, str]) -> RemotePath:
    """The path of a table on a file system of Hadoop. Raises DataError DATA107, DATA108; RunError RUN019."""
    try:
        return _reached_path(path, options)
    except UrlError as error:
        raise refused_url(path, error) from error


def _reached_path(text: str, options: Mapping[str, str]) -> RemotePath:
    """A path on a file system that has answered. Raises UrlError ``missing``, ``unreached`` or ``failed``."""
    from stateplan.runtime.spark.hadoop_files import HadoopFileSystem

    scheme = text.partition(":")[0]
    try:
        configuration = _configuration(options)
        path = _jvm().org.apache.hadoop.fs.Path(text)
        place = "/".join(text.split("/", 3)[:3]) if has_scheme(text) else default_file_system(options)
        access_failure = first_answer(place, partial(_ask, path, configuration))
        if access_failure is None:
            system = path.getFileSystem(configuration)
            qualified_path = system.makeQualified(path).toUri()
    except Exception as cause:
        if not is_of_spark(cause):
            raise
        why, jvm_error = reason(cause), jvm_loss_behind(cause)
        if "No FileSystem for scheme" in why or "ClassNotFoundException" in why:
            raise UrlError("missing", scheme=scheme, reason=why) from cause
        if jvm_error is not None:
            raise jvm_error from cause
        raise UrlError("failed", scheme=scheme, reason=why) from cause
    if access_failure is not None:
        kind, message = access_failure
        raise UrlError("unreached", scheme=scheme, what=REASONS[kind], reason=reason(message)[:300])
    root = f"{qualified_path.getScheme()}://{qualified_path.getAuthority() or ''}"
    return RemotePath(HadoopFileSystem(_jvm(), system, configuration, root), qualified_path.getPath())
