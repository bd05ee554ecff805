"""The tweaks inside the JVM of a Spark that was started for the job, compiled by Janino, which Spark compiles queries
with. :data:`execnodes.runtime.spark.tweaks.TWEAKS` says what each is for. Each is compiled by itself: a class that is
missing takes one tweak away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from stateplan.execnodes.runtime.spark.tweaks import Tweaks

FILES = "stateplan.LocalFiles"

SOURCES = {
    "local-files": (
        FILES,
        """
import java.io.IOException;
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
            try {
                java.nio.file.Files.setPosixFilePermissions(
                    pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
            } catch (UnsupportedOperationException e) {
                super.setPermission(path, permission);
            }
        }
    }
}
""",
    ),
    "rule-counts": (
        "stateplan.RuleCounts",
        """
import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.BiFunction;
import org.apache.spark.sql.classic.SparkSession;

public class RuleCounts {
    public static class Uncounted extends ConcurrentHashMap {
        public Object compute(Object key, BiFunction change) {
            return Long.valueOf(0);
        }
    }

    public void adapt(SparkSession session) throws Exception {
        Object meter = org.apache.spark.sql.catalyst.rules.RuleExecutor$.MODULE$.queryExecutionMeter();
        int replaced = replace(meter, new Uncounted());
        try {
            for (Method method : meter.getClass().getMethods()) {
                Class[] types = method.getParameterTypes();
                if (method.getName().startsWith("inc")) {
                    method.invoke(meter, types.length == 1 ? new Object[] {"probe"} : new Object[] {"probe", 1L});
                }
            }
        } catch (Exception e) {
            replace(meter, null);
            throw e;
        }
        if (replaced == 0) {
            throw new NoSuchFieldException("nothing counts the runs of rules");
        }
    }

    private static int replace(Object meter, ConcurrentHashMap map) throws IllegalAccessException {
        int replaced = 0;
        for (Field counter : meter.getClass().getDeclaredFields()) {
            for (Field counts : counter.getType().getDeclaredFields()) {
                if (counts.getType() == ConcurrentHashMap.class) {
                    counter.setAccessible(true);
                    counts.setAccessible(true);
                    counts.set(counter.get(meter), map == null ? new ConcurrentHashMap() : map);
                    replaced++;
                }
            }
        }
        return replaced;
    }
}
""",
    ),
    "session-options": (
        "stateplan.SessionOptions",
        """
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;
import scala.Option;
import scala.runtime.AbstractFunction0;

public class SessionOptions {
    public static class Getter extends AbstractFunction0 {
        private final SparkSession session;

        public Getter(SparkSession session) {
            this.session = session;
        }

        public Object apply() {
            Option active = org.apache.spark.sql.classic.SparkSession$.MODULE$.getActiveSession();
            SparkSession mine = active.isDefined() ? (SparkSession) active.get() : this.session;
            return mine.sparkContext().isStopped() ? SQLConf.getFallbackConf() : mine.sessionState().conf();
        }
    }

    public void adapt(SparkSession session) {
        Getter getter = new Getter(session);
        getter.apply();
        SQLConf.setSQLConfGetter(getter);
    }
}
""",
    ),
    "hadoop-defaults": (
        "stateplan.HadoopDefaults",
        """
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.classic.SparkSession;

public class HadoopDefaults {
    public void adapt(SparkSession session) {
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
""",
    ),
}
"""Tweak to its class and the source of that."""

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
    name, source = SOURCES[tweak]
    if source not in _classes:
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as above
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(_java(spark).getClass().getClassLoader())
        compiler.cook(f"package stateplan;\n{source}")
        _classes[source] = compiler.getClassLoader().loadClass(name)
    return _classes[source]


def _use_files(spark: SparkSession) -> None:
    """Puts our file system into Hadoop's cache of them and not into the configuration: whoever makes a new instance
    gets Hadoop's own."""
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - as above
    hadoop = _java(spark).sparkContext().hadoopConfiguration()
    configuration = jvm.org.apache.hadoop.conf.Configuration(hadoop)
    configuration.setClassLoader(_compiled(spark, "local-files").getClassLoader())
    configuration.set("fs.file.impl", FILES)
    root = jvm.java.net.URI("file:///")
    files = jvm.org.apache.hadoop.fs.FileSystem
    files.get(root, hadoop).close()  # takes it out of the cache
    made = files.get(root, configuration).getClass().getName()
    if made != FILES:
        raise ValueError(f"Hadoop made a {made}")


def _forget_pages(spark: SparkSession) -> None:
    """Takes those from Spark's listeners that keep what its web interface shows."""
    context = _java(spark).sparkContext()
    for store in (context.statusStore(), _java(spark).sharedState().statusStore()):
        if store.listener().isDefined():
            context.removeSparkListener(store.listener().get())
