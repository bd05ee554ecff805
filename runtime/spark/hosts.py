"""Hosts of a cluster that have lost power or network: tasks that ran there count as lost within seconds.

Spark hears nothing from such a host, and waits for its heartbeats: a busy executor may be late with them. But the
system of a host takes connections however busy or stopped its programs are. So a host that takes none for some seconds
is gone, and its executors are removed, as Spark does when their heartbeats are late.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import threading
import time
from collections.abc import Container, Iterable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from stateplan.common.settings import value

if TYPE_CHECKING:
    from pyspark import SparkContext

_NETWORK = {
    "spark.shuffle.io.connectionTimeout": "5s",
    "spark.shuffle.io.connectionCreationTimeout": "3s",
    "spark.shuffle.io.retryWait": "1s",
    "spark.shuffle.io.maxRetries": "20",
}
"""Settings for ``spark.network.timeout``. A task that reads from a host asks again after seconds, and hears from the
driver then that the host is gone. It asks a host that is only busy for as long as before, two minutes."""

_PLACES = {"spark.locality.wait.node": "0s"}
"""The same, for ``spark.locality.wait``. A task with state waits for the executor that had it: three seconds, also for
one that is gone, and then three more for its host, where it would find no state."""

_FAMILIES = {"spark.network.timeout": _NETWORK, "spark.locality.wait": _PLACES}
"""The setting of a user that decides for others."""

_INTERVAL = "heartbeat.interval"
_THRESHOLD = "heartbeat.rpc-failure-threshold"
_KILL = 3.0
"""Seconds in which the cluster's manager takes the order to end an executor."""

Address = tuple[str, int]
"""An IP address and a port."""

_log = logging.getLogger("stateplan")


def settings(own_keys: Container[str]) -> dict[str, str]:
    """Settings of a Spark on a cluster, by which a job continues soon after a host is lost.

    Args:
        own_keys: the keys that a user has set.
    """
    families = [settings for key, settings in _FAMILIES.items() if key not in own_keys]
    return {key: text for family in families for key, text in family.items()}


class Silence:
    """Counts how often in a row each host has not answered.

    Args:
        threshold: the number from which on a host is gone.
    """

    def __init__(self, threshold: int) -> None:
        self._threshold = threshold
        self._misses: dict[str, int] = {}

    def silent_hosts(self, polled_hosts: Iterable[str], answering_hosts: Iterable[str]) -> set[str]:
        """The hosts that are gone, after each of ``polled_hosts`` was asked once more.

        A host that has never answered is not counted: something may keep the driver from it. Where none of several
        hosts answers, the driver's own network is at fault, and none is gone.
        """
        hosts, answers = set(polled_hosts), set(answering_hosts)
        self._misses = {
            host: self._misses[host] + 1 for host in hosts - answers if host in self._misses
        } | dict.fromkeys(answers, 0)
        late = {host for host, misses in self._misses.items() if misses >= self._threshold}
        return set() if len(hosts) > 1 and not answers else late


def answering(places: Mapping[str, Address], seconds: float) -> set[str]:
    """The names whose host takes a connection, or says that nothing listens, within this number of seconds.

    Args:
        places: name to an address.
        seconds: for all of them together.
    """
    names: set[str] = set()
    with ExitStack() as stack, selectors.DefaultSelector() as selector:
        for name, place in places.items():
            connection = stack.enter_context(socket.socket(_family(place[0]), socket.SOCK_STREAM))
            connection.setblocking(False)
            code = connection.connect_ex(place)
            if code in (0, errno.ECONNREFUSED):
                names.add(name)
            elif code == errno.EINPROGRESS:
                selector.register(connection, selectors.EVENT_WRITE, (name, connection))
        until = time.monotonic() + seconds
        while selector.get_map() and (left := until - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                name, connection = key.data
                selector.unregister(connection)
                if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) in (0, errno.ECONNREFUSED):
                    names.add(name)
    return names


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def watch(context: SparkContext, options: Mapping[str, str]) -> None:
    """Watches the hosts of a Spark's executors until it ends. Fails if this Spark cannot learn of a lost host."""
    interval, threshold = value(options, _INTERVAL) / 1000, value(options, _THRESHOLD)
    if threshold > 0:
        executors = _Executors(context)
        threading.Thread(
            target=_watch, args=(executors, interval, threshold), name="stateplan-hosts", daemon=True
        ).start()


def _watch(executors: _Executors, interval: float, threshold: int) -> None:
    silence = Silence(threshold)
    while True:
        began = time.monotonic()
        if executors.has_ended():
            return
        try:
            places = executors.places()
            hosts = dict(places.values())
            lost_hosts = silence.silent_hosts(hosts, answering(hosts, interval))
            for executor, (host, _) in places.items():
                if host in lost_hosts:
                    reason = f"the host {host} has not answered for {interval * threshold:g} s"
                    _log.warning("%s: executor %s is given up", reason, executor)
                    executors.give_up(executor, host, reason)
        except Exception as failure:  # Py4J's, or the system's for want of connections: the next look may do better
            _log.info("the hosts of executors were not looked at: %s", failure)
        time.sleep(max(0.05, began + interval - time.monotonic()))


class _Executors:
    """The executors of a Spark, on other machines."""

    def __init__(self, context: SparkContext) -> None:
        self._jvm: Any = context._jvm  # noqa: SLF001 - PySpark knows no executors
        self._scala: Any = context._jsc.sc()  # noqa: SLF001 - as above
        self._backend: Any = self._scala.schedulerBackend()
        self._places: dict[str, tuple[str, Address]] = {}
        backend_class = self._jvm.java.lang.Class.forName(
            "org.apache.spark.scheduler.cluster.CoarseGrainedSchedulerBackend"
        )
        if not backend_class.isInstance(self._backend):
            raise TypeError(f"its scheduler is a {self._backend.getClass().getName()}")
        self._loss_reason("")

    def has_ended(self) -> bool:
        """Whether this Spark has ended, or its process."""
        try:
            return bool(self._scala.isStopped())
        except Exception:  # Py4J's, without the process
            return True

    def places(self) -> dict[str, tuple[str, Address]]:
        """Each executor that Spark has, with its host and the address where it listens."""
        ids = str(self._scala.getExecutorIds().mkString(",")).split(",")
        known_places = {executor: self._places[executor] for executor in ids if executor in self._places}
        new_ids = [executor for executor in ids if executor and executor not in known_places]
        new = {executor: place for executor in new_ids if (place := self._place(executor)) is not None}
        self._places = known_places | new
        return self._places

    def _place(self, executor: str) -> tuple[str, Address] | None:
        from py4j.protocol import Py4JJavaError

        try:
            host, _, port = str(self._scala.statusStore().executorSummary(executor).hostPort()).rpartition(":")
            address, number = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)[0][4][:2]
            return host, (str(address), int(number))
        except (Py4JJavaError, OSError, ValueError):  # Spark does not know it yet, or its host has no address
            return None

    def give_up(self, executor: str, host: str, reason: str) -> None:
        """Tells Spark that an executor is lost with its host, so that the cluster replaces it."""
        killing = threading.Thread(target=self._kill, args=(executor,), daemon=True)
        killing.start()
        killing.join(_KILL)
        self._backend.removeExecutor(executor, self._loss_reason(reason, host))

    def _kill(self, executor: str) -> None:
        from py4j.protocol import Py4JError

        try:
            self._scala.killAndReplaceExecutor(executor)
        except Py4JError as failure:
            _log.info("the cluster was not told of executor %s: %s", executor, failure)

    def _loss_reason(self, reason: str, host: str | None = None) -> Any:
        """The reason for Spark. It names the host, so that Spark reads nothing that other executors have left there."""
        return self._jvm.org.apache.spark.scheduler.ExecutorProcessLost(
            reason, self._jvm.scala.Option.apply(host), False
        )
