"""The Spark session a plan runs in."""

from __future__ import annotations

import contextlib
import glob
import importlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from stateplan.common.errors import RunError
from stateplan.common.failure_reasons import OTHER, REASONS, kind_in, kind_of, module_of, text_of
from stateplan.common.settings import parallelism
from stateplan.runtime.memory import HEAP, TOTAL, rocksdb_settings
from stateplan.runtime.scratch import scratch
from stateplan.runtime.spark import hosts, worker_daemon
from stateplan.runtime.spark.class_archive import archive_at_exit, archive_options
from stateplan.runtime.spark.java import java_error, require_java
from stateplan.runtime.spark.jvm_loss import expect_end, forget_dead_jvm, is_of_spark, jvm_loss_behind
from stateplan.runtime.spark.launch import check_environment, environment, launch, submit_arguments
from stateplan.runtime.spark.local_spark import adapt, compile_ahead, forget_classes
from stateplan.runtime.spark.master import SUBMITTED, check_form, check_master, master_error, watch_log
from stateplan.runtime.spark.tweak_settings import probe, tweak_settings, worker_variables
from stateplan.runtime.spark.tweaks import COLLECTOR, OFF, TWEAKS, Tweaks, reason
from stateplan.runtime.spark.worker_python import serve_forks, worker_python

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession as SparkSession

MANDATORY = {
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    # An attempt of a micro-batch that never was committed may still upload its state, after the next attempt has.
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    "spark.sql.streaming.noDataMicroBatches.enabled": "false",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings the runtime depends on."""

DEFAULTS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.adaptive.enabled": "false",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.executorEnv.OMP_NUM_THREADS": "1",
}
"""Settings of a Spark that is started here; a user's override them."""

LOCAL_DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "2g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.log.level": "ERROR",
}
"""The same, of a Spark on this machine alone."""

_FIRST = ("spark-core", "spark-sql", "spark-catalyst", "spark-common-utils", "scala-library")
"""Libraries to be looked at before all others."""

_FILES = ("spark.jars", "spark.submit.pyFiles", "spark.files", "spark.archives")
_FETCHED = (*_FILES, "spark.jars.packages")
"""Settings with places that Spark fetches something from when it starts."""

_LOG = "spark.log"

_EXITED = "JAVA_GATEWAY_EXITED"
"""PySpark's condition where the JVM ended before it could be spoken to."""
_FAILURE = re.compile(r"Exception\b|^Error\b|^Invalid |^Could not |^Unrecognized |^Unsupported ")
_IN_MAIN = 'Exception in thread "main" '
"""What a JVM prints that ends at once."""

_CONNECT = {"SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED"}
"""The variables that lead PySpark to a server of Spark Connect."""

_ours: dict[str, Mapping[str, str]] = {}
"""The Sparks that were started here, by application id, with the settings that they were given."""
_starting = threading.RLock()
_pending = threading.Event()
"""Whether one is being started: PySpark has its context long before it is of any use."""

_ATTEMPTS = 2
"""How often a local task is tried: a Python worker that the system kills, for want of memory say, ends no job."""

_BETWEEN = "\x01"
"""Between the settings of a session, where the JVM sends all of them in one text."""

_SOCKET_FOLDER = 60
"""The longest path of a folder, in bytes, where Spark can put a socket: paths of sockets have at most some hundred."""

_JVM_SETTINGS = ("spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions")
_JVM_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS")
"""Where a user gives options to Spark's JVM."""
_COLLECTOR_OPTION = re.compile(r"-XX:\+Use\w+GC\b")

_CODE_CACHE = "-XX:ReservedCodeCacheSize=240m"
"""The room for compiled code that the JVM has with its optimizing compiler. Without that compiler it would have 48 MiB,
which are full after some hundred jobs. From then on, it drops compiled code and compiles it again."""

_niceness = 0
"""How much Spark yields to the process that starts it, see :func:`lower_priority`."""

_output_files: list[Path] = []
"""The file that has what the JVM printed that this process started; it goes when the process ends."""


def session(options: Mapping[str, str], lasting: bool = False, tweaks: Tweaks | None = None) -> SparkSession:
    """A session with the settings of a job. Raises the same errors as :func:`spark_of`."""
    return job_session(spark_of(options, lasting, tweaks), options)


def spark_of(
    options: Mapping[str, str],
    lasting: bool = False,
    tweaks: Tweaks | None = None,
    own_session: SparkSession | None = None,
) -> SparkSession:
    """The Spark that a job runs in: the one that is given, or that this process runs already; else it is started where
    ``spark.master`` says, on this machine by default.

    Args:
        options: session options; ``spark.*`` are handed to Spark.
        lasting: whether the first job has unbounded input.
        tweaks: the tweaks of the job.
        own_session: a session of the user's.

    Raises:
        RunError: RUN010, Java is missing; RUN011, Spark does not start; RUN093, its master does not answer; RUN012, the
            session is one of Spark Connect; RUN013, a setting that cannot be changed; RUN019, Spark has ended.
    """
    for key, value in MANDATORY.items():
        if options.get(key, value) != value:
            raise RunError("RUN013.needed_by_state", key=key, value=options[key], actual=value)
    with _starting:
        active = own_session or _active_session(options)
        if active is None:
            _pending.set()
            try:
                return _start(options, lasting, tweaks or Tweaks(options))
            finally:
                _pending.clear()
    if not hasattr(active, "_jsparkSession"):
        raise RunError("RUN012")
    _check_static(active, options)
    return active


def job_session(spark: SparkSession, options: Mapping[str, str]) -> SparkSession:
    """A session of its own for a job: with the settings and the listeners of ``spark``, which stays as it is, and those
    of the job, which other jobs do not see."""
    own = _child(spark)
    for key, value in _settings(options).items():
        if key.startswith("spark.sql.") and own.conf.isModifiable(key):
            own.conf.set(key, value)
    return own


def runs_elsewhere(options: Mapping[str, str], own_session: SparkSession | None = None) -> bool:
    """Whether a job would run on other machines. Raises RunError RUN012."""
    active = own_session or _active_session(options)
    if active is None:
        master = options.get("spark.master") or known_settings().get("spark.master")
    else:
        master = active.sparkContext.master if hasattr(active, "_jsparkSession") else None
    return master is not None and not is_local(master)


def is_somebody_elses(options: Mapping[str, str], own_session: SparkSession | None = None) -> bool:
    """Whether a job would run in a Spark that this process did not start for jobs. Raises RunError RUN012."""
    active = own_session or _active_session(options)
    return active is not None and (not hasattr(active, "_jsparkSession") or not is_ours(active))


def would_be_ours(options: Mapping[str, str]) -> bool:
    """Whether a job would run on this machine in a Spark that this process starts for jobs, or has started. Loads no
    engine."""
    if SUBMITTED in os.environ or _CONNECT & os.environ.keys() or options.get("spark.remote"):
        return False
    if not is_local(options.get("spark.master") or "local"):
        return False
    context = running_context()
    if context is not None:
        return context.applicationId in _ours and is_local(context.master)
    return is_local(options.get("spark.master") or known_settings().get("spark.master") or "local")


def running_context() -> SparkContext | None:
    """The Spark that this process runs, if there is one; not one that is just being started. Loads no engine."""
    if "pyspark" not in sys.modules or _pending.is_set():
        return None
    from pyspark import SparkContext

    return SparkContext._active_spark_context  # noqa: SLF001 - PySpark has no question without an answer for this


def _active_session(options: Mapping[str, str]) -> SparkSession | None:
    """The session of this thread, or of the Spark that this process runs; waits for one that another thread starts.
    Raises RunError RUN012."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession as SparkSession
    from pyspark.sql.utils import is_remote

    if SparkContext._active_spark_context is None:  # noqa: SLF001 - see running_context
        for name in sorted(_CONNECT & os.environ.keys()):
            raise RunError("RUN012.variable", name=name, address=os.environ[name])
    if is_remote() or options.get("spark.remote") or options.get("spark.master", "").startswith("sc://"):
        raise RunError("RUN012")
    if forget_dead_jvm():
        forget_classes()
    with _starting:
        context = SparkContext._active_spark_context  # noqa: SLF001 - a session of another thread has no public name
        if context is None:
            return None
        return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()


def _check_static(spark: SparkSession, options: Mapping[str, str]) -> None:
    """Refuses settings that a running Spark cannot take any more. One that was started here knows what it was given:
    Spark itself adds to some settings, such as Java options."""
    own_settings = _ours.get(spark.sparkContext.applicationId, {})
    static_settings = {
        key: value
        for key, value in options.items()
        if key.startswith("spark.")
        and not key.startswith("spark.stateplan.")
        and own_settings.get(key) != value
        and not spark.conf.isModifiable(key)
    }
    if static_settings:
        conf = spark.sparkContext.getConf()  # tens of milliseconds: the JVM returns each setting in a call of its own
        for key, value in static_settings.items():
            actual = conf.get(key)
            if actual != value:
                is_derived = key == HEAP and TOTAL in options
                code = "RUN013.heap" if is_derived else "RUN013"
                raise RunError(code, key=key, value=value, actual=actual or "not set", total=options.get(TOTAL))


def is_ours(spark: SparkSession) -> bool:
    """Whether this process has started the Spark of a session for a job."""
    return spark.sparkContext.applicationId in _ours


def _child(spark: SparkSession) -> SparkSession:
    own = spark.newSession()
    has, parent_settings = _set_options(own), _set_options(spark)
    for key, value in parent_settings.items():
        if has.get(key) != value and spark.conf.isModifiable(key):
            own.conf.set(key, value)
    for key in has.keys() - parent_settings.keys():
        own.conf.unset(key)
    own.conf.set("spark.sql.adaptive.enabled", "false")
    theirs, ours = (s._jsparkSession.streams() for s in (spark, own))  # noqa: SLF001 - PySpark cannot list listeners
    listener_hashes = {listener.hashCode() for listener in ours.listListeners()}
    for listener in theirs.listListeners():
        if listener.hashCode() not in listener_hashes:
            ours.addListener(listener)
    return own


def _set_options(spark: SparkSession) -> dict[str, str]:
    """The settings of a session, in one call of the JVM. PySpark takes two for each of them, tens of milliseconds."""
    text = spark._jsparkSession.conf().getAll().mkString(_BETWEEN)  # noqa: SLF001 - PySpark asks for one setting at a time
    return dict(setting.split(" -> ", 1) for setting in text.split(_BETWEEN) if setting)


def _settings(options: Mapping[str, str]) -> dict[str, str]:
    """What the job sets in every Spark."""
    return {
        **rocksdb_settings(options),
        "spark.sql.shuffle.partitions": str(parallelism(options)),
        **{k: v for k, v in options.items() if k.startswith("spark.")},
        **MANDATORY,
    }


def is_local(master: str) -> bool:
    """Whether Spark runs in this process alone: ``local``, ``local[4]``, ``local[*,2]``."""
    return re.fullmatch(r"local(\[.*\])?", master) is not None


def known_settings() -> dict[str, str]:
    """Settings that a Spark started here has from elsewhere. Raises RunError RUN011 for an environment without
    sense."""
    check_environment()
    if SUBMITTED in os.environ:
        from pyspark import SparkConf, SparkContext

        SparkContext._ensure_initialized()  # noqa: SLF001 - spark-submit has its settings in the JVM
        return dict(SparkConf().getAll())
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf")
    settings: dict[str, str] = {}
    with contextlib.suppress(OSError):
        for line in Path(folder or "", "spark-defaults.conf").read_text(errors="replace").splitlines():
            key, _, value = re.sub(r"[\s=:]+", "\0", line.strip(), count=1).partition("\0")
            if key.startswith("spark."):
                settings[key] = value.strip()
    for flag, word in pairwise(submit_arguments()):
        if flag == "--master":
            settings["spark.master"] = word
        elif flag in ("--conf", "-c"):
            key, _, value = word.partition("=")
            settings[key] = value
    return settings


def _start(options: Mapping[str, str], lasting: bool, tweaks: Tweaks) -> SparkSession:
    from pyspark.sql import SparkSession as SparkSession

    require_java()
    conf = known_settings()
    master = options.get("spark.master") or conf.get("spark.master") or f"local[{parallelism(options)},{_ATTEMPTS}]"
    check_form(master)
    _check_files(options)
    local = is_local(master)
    adaptable = local and os.name == "posix"
    defaults = DEFAULTS | (LOCAL_DEFAULTS if local else hosts.settings({*conf, *options}))
    settings = {**{k: v for k, v in defaults.items() if k not in conf}, **_settings(options)}
    python_path = os.pathsep.join(filter(None, (str(_installed_in()), os.environ.get("PYTHONPATH"))))
    python = (
        settings.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or conf.get("spark.pyspark.python")
    )
    settings_by_tweak = tweak_settings(tweaks)
    tweaked = dict(pair for part in settings_by_tweak.values() for pair in part.items())
    if local:
        if python is None and adaptable:
            python = tweaks.attempt("worker-python", worker_python, python_path)
            if python is not None:
                serve_forks(python, tweaks, variables=worker_variables(tweaked | settings))
        local_settings = _of_this_machine(tweaks, lasting, conf | settings)
        settings = {"spark.executorEnv.PYTHONPATH": python_path, **local_settings, **settings}
    name = options.get("pipeline.name", "stateplan")
    everything = {**tweaked, **settings}
    builder = SparkSession.builder.appName(name).master(master).config(map=everything)

    def start() -> SparkSession:
        threading.Thread(target=_import_ahead, name="import-ahead", daemon=True).start()
        launch({"spark.app.name": name, "spark.master": master, **everything})
        if adaptable:
            compile_ahead(tweaks)
        return builder.getOrCreate()

    if not local:
        check_master(master)
    with quietly() as log, environment("PYSPARK_PYTHON", python or sys.executable):
        try:
            with contextlib.nullcontext() if local else watch_log(master, options, log):
                spark = _yielding(start)
        except RunError:
            forget_dead_jvm()
            raise
        except Exception as cause:
            if isinstance(cause, OSError) or is_of_spark(cause):
                user_keys = [key for key in options if key.startswith("spark.")]
                raise start_error(cause, master, conf | settings, user_keys, log) from cause
            raise
    _ours[spark.sparkContext.applicationId] = settings
    expect_end(spark.sparkContext)
    probe(spark, settings_by_tweak, settings, tweaks)
    if adaptable:
        adapt(spark, tweaks)
    if not local:
        tweaks.attempt("lost-hosts", hosts.watch, spark.sparkContext, options)
    return spark


def _import_ahead() -> None:
    """Imports what PySpark imports when the first list is sent to the JVM, while this process waits for the JVM."""
    with contextlib.suppress(ImportError):
        importlib.import_module("pyspark.testing.utils")


def lower_priority(niceness: int) -> None:
    """Lowers the priority of a Spark that this process starts later on this machine, so that a server answers while
    jobs use all cores. It has no effect where the system has one priority for all threads of a process.

    Args:
        niceness: as of nice(2), from 0 to 19.
    """
    global _niceness
    _niceness = niceness if sys.platform == "linux" else 0


def _yielding(start: Callable[[], SparkSession]) -> SparkSession:
    """The outcome of a function that starts processes. They take on the priority of the thread that starts them, and
    only a privileged user can raise one that was lowered, so the thread is one of its own."""
    if not _niceness:
        return start()

    def run() -> SparkSession:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _niceness)
        return start()

    with ThreadPoolExecutor(1) as starter:
        return starter.submit(run).result()


def _check_files(settings: Mapping[str, str]) -> None:
    """Raises RunError RUN011 for a file of this machine that is not there: Spark would continue without it."""
    for key in _FILES:
        for entry in filter(None, map(str.strip, settings.get(key, "").split(","))):
            file = entry.partition("#")[0]
            if file.startswith("file:"):  # a URI, where Spark decodes %20
                file = unquote(file.removeprefix("file:").removeprefix("//"))
            if "://" not in file and not file.startswith("local:") and not (os.path.exists(file) or glob.glob(file)):
                raise RunError("RUN011.missing_file", key=key, file=file)


def start_error(
    failure: Exception, master: str, settings: Mapping[str, str], user_keys: Sequence[str], log: Path
) -> RunError:
    """The error for a Spark, or its JVM alone, that does not start.

    Args:
        failure: what PySpark raises.
        master: the address of its master.
        settings: the settings that Spark would have.
        user_keys: those of the settings that the user chose for this job.
        log: the output of the JVM.
    """
    jvm_error = jvm_loss_behind(failure)
    if jvm_error is not None:
        return jvm_error
    text = text_of(failure)
    kind = None if is_local(master) else kind_of(failure)
    if kind is not None:
        return master_error(master, kind, reason(text))
    unusable_java = java_error() if _EXITED in text or isinstance(failure, OSError) else None
    if unusable_java is not None:
        return unusable_java
    cause = reason(text) if module_of(failure) == "py4j" else text
    lines = log.read_text(errors="replace").strip().splitlines()
    package_keys = [key for key in _FETCHED if settings.get(key)]
    network_lines = [line for line in lines if kind_in([line]) is not None]
    if package_keys and network_lines:
        why = REASONS[kind_in(network_lines) or OTHER]
        return RunError(
            "RUN094.packages",
            options=" or ".join(f"'{key}'" for key in package_keys),
            why=why,
            what=network_lines[0].strip()[:300],
        )
    problem = _problem(cause, [line for line in lines if not line[:1].isspace() and " WARN " not in line])
    if not user_keys:
        return RunError("RUN011", problem=problem, log=keep_log())
    to_blame = [key for key in user_keys if key in problem or _is_quoted(settings.get(key, ""), problem)]
    return RunError("RUN011.setting", problem=problem, settings=", ".join(to_blame or user_keys), log=keep_log())


def _is_quoted(value: str, problem: str) -> bool:
    """Whether a message shows the value of a setting. Numbers and empty values are in messages for other reasons."""
    return not (value == "" or value.isdecimal()) and value in problem


def _problem(cause: str, lines: Sequence[str]) -> str:
    """Why Spark did not start: PySpark's exception, unless it only says that the JVM has ended. Then it is in what the
    JVM printed."""
    if _EXITED not in cause:
        return cause
    telling = [line for line in lines if _FAILURE.search(line)]
    return " / ".join(line.removeprefix(_IN_MAIN) for line in telling[:2]) or " / ".join((cause, *lines[-3:]))


def _installed_in() -> Path:
    """The folder that Python imports ``stateplan`` from: workers get it in front of what a user has on PYTHONPATH."""
    spec = find_spec("stateplan")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent.parent


def _of_this_machine(tweaks: Tweaks, lasting: bool, others: Mapping[str, str]) -> dict[str, str]:
    """Settings of a Spark on this machine, beside ``others``. It keeps its files where they are removed with those
    of this process, even after it was killed: the working copies of state stores, shuffles, and libraries that its JVM
    unpacks."""
    folder = str(scratch("spark"))
    java = ["-XX:+IgnoreUnrecognizedVMOptions", "-XX:+ExitOnOutOfMemoryError"]
    if tweaks.on("compilers"):
        java += ["-XX:Tier3DelayOn=0"] if lasting else ["-XX:TieredStopAtLevel=1", _CODE_CACHE]
    left_out = {COLLECTOR} if _chooses_collector(others) else set()
    active = [tweak for name, tweak in TWEAKS.items() if tweaks.on(name) and name not in left_out]
    java += [option for tweak in active for option in tweak.java]
    archive = tweaks.attempt("class-archive", archive_options, os.environ) or []
    java += archive
    if not archive and os.name == "posix" and tweaks.attempt("class-archive", archive_at_exit, os.environ):
        tweaks.tell(
            "when this ends, a process in the background archives Spark's classes, once, so that later jobs start "
            f"faster; -D {OFF}=class-archive turns this off"
        )
    if not re.search(r"\s", folder):
        java.append(f"-Djava.io.tmpdir={folder}")
    settings = {"spark.driver.defaultJavaOptions": " ".join(java)}
    if "SPARK_LOCAL_DIRS" not in os.environ:
        settings["spark.local.dir"] = folder
    first = tweaks.attempt("class-path", _class_path)
    if first is not None:
        settings["spark.driver.extraClassPath"] = first
    if tweaks.on("worker-daemon") and os.name == "posix":
        settings["spark.python.daemon.module"] = worker_daemon.MODULE
    if tweaks.on("unix-sockets") and os.name == "posix" and len(os.fsencode(folder)) <= _SOCKET_FOLDER:
        settings["spark.python.unix.domain.socket.enabled"] = "true"
        settings["spark.python.unix.domain.socket.dir"] = folder
    return settings


def _chooses_collector(settings: Mapping[str, str]) -> bool:
    """Whether settings or variables choose the garbage collector of the JVM, which does not start with two."""
    texts = (
        *(settings.get(name, "") for name in _JVM_SETTINGS),
        *(os.environ.get(name, "") for name in _JVM_VARIABLES),
    )
    return any(_COLLECTOR_OPTION.search(text) for text in texts)


def _class_path() -> str:
    """Those of Spark's own libraries that it plans micro-batches with."""
    from pyspark.find_spark_home import _find_spark_home

    jars = Path(_find_spark_home()) / "jars"
    paths = [str(jar) for name in _FIRST for jar in sorted(jars.glob(f"{name}[_-]*.jar"))]
    if not paths:
        raise FileNotFoundError(f"{jars} has none of {', '.join(_FIRST)}")
    return os.pathsep.join(paths)


def keep_log() -> Path | None:
    """Something failed: what the JVM printed stays when this process has ended, in the folder for temporary files. None
    when this process started no JVM."""
    if _output_files and _output_files[0].name == _LOG:
        with contextlib.suppress(OSError):
            log = Path(tempfile.gettempdir()) / f"stateplan-{_output_files[0].parent.name}.log"
            _output_files[0] = _output_files[0].rename(log)
    return _output_files[0] if _output_files else None


def last_printed(size: int) -> str:
    """The last ``size`` bytes of what the JVM printed that this process started; nothing if it started none."""
    with contextlib.suppress(OSError):
        for log in _output_files:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - size))
                return file.read().decode("utf-8", "replace")
    return ""


@contextmanager
def quietly() -> Iterator[Path]:
    """Redirects standard output and error of child processes that start inside to a log file: one thread at a time."""
    with _starting:
        yield from _quietly()


def _quietly() -> Iterator[Path]:
    log = scratch("spark") / _LOG
    _output_files[:] = [log]
    handle = os.open(log, os.O_WRONLY | os.O_CREAT, 0o600)
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    descriptors = [(fd, os.dup(fd)) for fd in (1, 2)]
    try:
        for fd, _ in descriptors:
            os.dup2(handle, fd)
        yield log
    finally:
        for fd, copy in descriptors:
            os.dup2(copy, fd)
            os.close(copy)
        os.close(handle)
