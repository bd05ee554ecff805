"""A file system of Hadoop for Python, through the JVM of Spark."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

from fsspec.spec import AbstractFileSystem

from stateplan.common.failure_reasons import text_of
from stateplan.common.files import scheme_of
from stateplan.runtime.spark.jvm_loss import is_of_spark, jvm_loss_behind
from stateplan.runtime.spark.tweaks import reason

T = TypeVar("T")


class HadoopFileSystem(AbstractFileSystem):  # type: ignore[misc] # a base without types
    """A file system of Hadoop as one of fsspec, for the process that has Spark's JVM.

    Args:
        jvm: the JVM of Spark.
        system: the Java object.
        configuration: Hadoop's options.
        root: scheme and authority, such as ``hdfs://namenode:8020``.
    """

    cachable = False

    def __init__(self, jvm: Any, system: Any, configuration: Any, root: str) -> None:
        super().__init__(use_listings_cache=False)
        self._jvm = jvm
        self._system = system
        self._configuration = configuration
        self._root = root
        self.protocol = scheme_of(root)

    def unstrip_protocol(self, name: str) -> str:
        return self._root + name

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root + path)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        return self._facts(_java(lambda: self._system.getFileStatus(self._path(path))))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        entries = [self._facts(status) for status in _java(lambda: self._system.listStatus(self._path(path)))]
        return entries if detail else [facts["name"] for facts in entries]

    @staticmethod
    def _facts(status: Any) -> dict[str, Any]:
        return {
            "name": status.getPath().toUri().getPath(),
            "size": status.getLen(),
            "type": "directory" if status.isDirectory() else "file",
            "mtime": status.getModificationTime() / 1000,
        }

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        _java(lambda: self._system.mkdirs(self._path(path)))

    def rm_file(self, path: str) -> None:
        _java(lambda: self._system.delete(self._path(path), False))

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        _java(lambda: self._system.delete(self._path(path), recursive))

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **_: Any) -> bytes:
        stream = _java(lambda: self._system.open(self._path(path)))
        try:
            data = bytes(_java(lambda: self._jvm.org.apache.commons.io.IOUtils.toByteArray(stream)))
        finally:
            stream.close()
        return data[start:end]

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **_: Any) -> None:
        out = _java(lambda: self._system.create(self._path(path), mode == "overwrite"))

        def write() -> None:
            out.write(bytearray(value))
            out.close()

        _java(write)

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        """Renames a file; one that has the name is replaced."""
        jvm = self._jvm
        context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(self._path("/").toUri(), self._configuration)
        kind = jvm.java.lang.Class.forName("org.apache.hadoop.fs.Options$Rename")
        options = jvm.java.lang.reflect.Array.newInstance(kind, 1)
        options[0] = jvm.java.lang.Enum.valueOf(kind, "OVERWRITE")
        _java(lambda: context.rename(self._path(path1), self._path(path2), options))

    def touch_at(self, path: str, seconds: float) -> None:
        """Sets the modification time of a file, where the file system has such a thing."""
        _java(lambda: self._system.setTimes(self._path(path), round(seconds * 1000), -1))


_ERRORS: dict[str, type[OSError]] = {
    "FileNotFoundException": FileNotFoundError,
    "NoSuchFileException": FileNotFoundError,
    "AccessControlException": PermissionError,
    "FileAlreadyExistsException": FileExistsError,
    "ParentNotDirectoryException": NotADirectoryError,
}


def _java(call: Callable[[], T]) -> T:
    """What a call of Java gives; its errors as those of Python."""
    try:
        return call()
    except Exception as cause:
        if not is_of_spark(cause):
            raise
        jvm_error = jvm_loss_behind(cause)
        if jvm_error is not None:
            raise jvm_error from cause
        why = reason(text_of(cause)) or type(cause).__name__
        java_class = re.match(r"(?:[\w$]+\.)*([\w$]+)", why)  # Java's own class, or what PySpark has made of it
        raise _ERRORS.get(java_class[1] if java_class else "", OSError)(0, why) from cause
