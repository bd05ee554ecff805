"""Files of a checkpoint on a local disk, without a process for each of them.

Hadoop runs ``chmod`` for every file that it makes on a local disk, unless its native library is there, which comes
with no PySpark: some twenty processes in a micro-batch of three levels of state, most of them while a task waits. Here
it gets a file system that is its own ``LocalFileSystem`` but has the JVM set the permissions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CLASS", "without_processes"]

CLASS = "stateplan.LocalFiles"

_SOURCE = """
package stateplan;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new Raw());
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
        }
    }
}
"""


def without_processes(spark: SparkSession) -> bool:
    """Has this JVM use the file system above for ``file:`` paths; whether it does.

    The class is compiled by Janino, which Spark compiles its own queries with. It goes into Hadoop's cache of file
    systems and not into the configuration: whoever makes a new instance gets Hadoop's own.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]

    jvm = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001
    assert jvm is not None
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(hadoop.getClassLoader())
        compiler.cook(_SOURCE)
        configuration = jvm.org.apache.hadoop.conf.Configuration(hadoop)
        configuration.setClassLoader(compiler.getClassLoader())
        configuration.set("fs.file.impl", CLASS)
        root = jvm.java.net.URI("file:///")
        files = jvm.org.apache.hadoop.fs.FileSystem
        files.get(root, hadoop).close()  # takes it out of the cache
        return bool(files.get(root, configuration).getClass().getName() == CLASS)
    except Py4JError:
        return False
