"""What a Spark that was started for the job does another way, compiled by Janino, which Spark compiles queries with.

- Hadoop runs ``chmod`` for every file that it makes on a local disk, unless its native library is there, which comes
  with no PySpark: some twenty processes in a micro-batch of three levels of state, most of them while a task waits. It
  gets a file system that is its own ``LocalFileSystem`` but has the JVM set the permissions.
- Spark sends Hadoop's options to the tasks anew for each level of state. Two thirds of them are defaults of YARN and
  MapReduce, which nothing here runs on.
- The threads that serve state to Python know no session, and so none of its options: they compile code for the few
  values of a micro-batch in spite of them. Now they have those of the session.
- Spark counts how often and how long each rule of its planner ran, and adds all of it up before and after every plan.
  A micro-batch of three levels has some eighty: of each encoder of a state variable, and of each copy of an operator.
  It shows the counts to nobody who does not ask; here it counts nothing.
- Spark writes down all that its tasks report for the pages of its web interface, also where that is switched off. There
  it no longer does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILES = "stateplan.LocalSpark$Files"

_SOURCE = """
package stateplan;

import java.io.IOException;
import java.lang.reflect.Field;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.runtime.AbstractFunction0;

public class LocalSpark {
    public static class Files extends LocalFileSystem {
        public Files() {
            super(new Raw());
        }
    }

    public static class Raw extends RawLocalFileSystem {
        public void setPermission(Path path, FsPermission permission) throws IOException {
            if (permission.getStickyBit()) {
                super.setPermission(path, permission);
                return;
            }
            java.nio.file.Files.setPosixFilePermissions(
                pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
        }
    }

    public static class Options extends AbstractFunction0 {
        private final SparkSession session;

        public Options(SparkSession session) {
            this.session = session;
        }

        public Object apply() {
            Option active = org.apache.spark.sql.classic.SparkSession$.MODULE$.getActiveSession();
            SparkSession mine = active.isDefined() ? (SparkSession) active.get() : this.session;
            return mine.sparkContext().isStopped() ? SQLConf.getFallbackConf() : mine.sessionState().conf();
        }
    }

    public static class Uncounted extends ConcurrentHashMap {
        public Object compute(Object key, BiFunction change) {
            return Long.valueOf(0);
        }
    }

    public void countNoRules() throws IllegalAccessException {
        Object meter = org.apache.spark.sql.catalyst.rules.RuleExecutor$.MODULE$.queryExecutionMeter();
        for (Field counter : meter.getClass().getDeclaredFields()) {
            for (Field counts : counter.getType().getDeclaredFields()) {
                if (counts.getType() == ConcurrentHashMap.class) {
                    counter.setAccessible(true);
                    counts.setAccessible(true);
                    counts.set(counter.get(meter), new Uncounted());
                }
            }
        }
    }

    public void adapt(SparkSession session) {
        SQLConf.setSQLConfGetter(new Options(session));
        Configuration options = session.sparkContext().hadoopConfiguration();
        for (Object entry : options) {
            String key = (String) ((Map.Entry) entry).getKey();
            String[] sources = options.getPropertySources(key);
            if (sources != null && sources.length == 1
                    && (sources[0].equals("yarn-default.xml") || sources[0].equals("mapred-default.xml"))) {
                options.unset(key);
            }
        }
    }
}
"""

_adapted: dict[str, Any] = {}


def adapt(spark: SparkSession) -> bool:
    """Has a Spark on this machine, started for the job, do the above; whether it does.

    The file system goes into Hadoop's cache of them and not into the configuration: whoever makes a new instance gets
    Hadoop's own.
    """
    from py4j.protocol import Py4JError

    jvm = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to the JVM
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    assert jvm is not None
    try:
        if spark.conf.get("spark.ui.enabled") == "false":
            _forget_pages(spark)
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(hadoop.getClassLoader())
        compiler.cook(_SOURCE)
        ours = compiler.getClassLoader().loadClass("stateplan.LocalSpark").newInstance()
        ours.countNoRules()
        configuration = jvm.org.apache.hadoop.conf.Configuration(hadoop)
        configuration.setClassLoader(compiler.getClassLoader())
        configuration.set("fs.file.impl", FILES)
        root = jvm.java.net.URI("file:///")
        files = jvm.org.apache.hadoop.fs.FileSystem
        files.get(root, hadoop).close()  # takes it out of the cache
        _adapted.clear()
        _adapted[spark.sparkContext.applicationId] = ours
        return bool(files.get(root, configuration).getClass().getName() == FILES)
    except Py4JError:
        return False


def _forget_pages(spark: SparkSession) -> None:
    """Takes those from Spark's listeners that keep what its web interface shows."""
    context = spark.sparkContext._jsc.sc()  # noqa: SLF001 - no other way to the JVM
    stores = (context.statusStore(), spark._jsparkSession.sharedState().statusStore())  # noqa: SLF001 - likewise
    for listener in (store.listener() for store in stores):
        if listener.isDefined():
            context.removeSparkListener(listener.get())


def adapt_query(spark: SparkSession) -> None:
    """Does again what the start of a query undoes, where :func:`adapt` did its work: Spark makes a session for each,
    which takes the options from threads without one, and Hadoop reads defaults when a class first needs them."""
    ours = _adapted.get(spark.sparkContext.applicationId)
    if ours is not None:
        ours.adapt(spark._jsparkSession)  # noqa: SLF001 - as above
