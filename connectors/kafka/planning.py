"""Planning of a Kafka source, next to the driver: which partitions there are, where each begins and ends, and how much
of them a micro-batch reads.

An offset of the source has

- ``offsets``: topic -> partition -> the next offset to read,
- ``ids``: topic -> its id, if the brokers report ids: a topic that was created again has another,
- ``marks``: topic -> partition -> a message by which the topic is known again, for brokers that do not,
- ``new``: as ``offsets``: where partitions begin that the micro-batch up to it reads for the first time,
- ``waiting``: as ``offsets``: partitions that have messages, of which the micro-batch up to it reads none,
- ``turn``: ms since 1970: of a micro-batch that only says which partitions wait.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from stateplan.common.errors import RunError, nearest
from stateplan.connectors.alignment import Aligner
from stateplan.connectors.kafka.client import NO_TOPIC, Brokers, SharedConsumer, passes, shared_consumer
from stateplan.connectors.kafka.samples import Marks, Offsets, Place, mean_size
from stateplan.connectors.kafka.split_reader import lost_messages
from stateplan.connectors.kafka.splits import KafkaSplit
from stateplan.connectors.kafka.tables import Bound, Limits
from stateplan.connectors.pace import Pace
from stateplan.connectors.protocol import Offset

if TYPE_CHECKING:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

T = TypeVar("T")

FIRST, LAST = -2, -1
"""What stands for the first offset and for the end of a partition where offsets are requested by time."""

_SAMPLED = 1_000
"""Where there are fewer messages to read, their size does not matter."""

_SAMPLED_EVERY = 30.0
_TASKS = 16
"""Into about how many splits a large micro-batch is cut, and the least number of messages in one."""

_LEAST = 20_000


class Planner:
    """Plans the micro-batches of a source. Not pickled: lives where the source plans.

    Args:
        brokers: the brokers of the table.
        topics: the topics that are read; empty for a pattern.
        pattern: the pattern that names of topics match; None for a list.
        start, end: where partitions begin and end.
        discovery: after how many seconds to look for new partitions; 0 is never.
        limits: the limits of a micro-batch.
        idle_timeout: after how many seconds a partition without messages is idle; 0 is never.
        aligner: says which partitions may be read; None for all.
        acknowledges: whether the group learns how far the job has advanced.
        pace: says how many messages a micro-batch may read besides.
    """

    def __init__(
        self,
        brokers: Brokers,
        topics: Sequence[str],
        pattern: str | None,
        start: Bound,
        end: Bound,
        discovery: float,
        limits: Limits,
        idle_timeout: float = 0.0,
        aligner: Aligner | None = None,
        acknowledges: bool = True,
        pace: Pace | None = None,
    ) -> None:
        self.brokers = brokers
        self.pace = pace
        self.acknowledges = acknowledges and brokers.own("commit.offsets.on.checkpoint") != "false"
        self.topics = topics
        self.pattern = None if pattern is None else re.compile(pattern)
        self.start, self.end = start, end
        self.discovery = discovery
        self.limits, self.idle_timeout, self.aligner = limits, idle_timeout, aligner
        self.client: SharedConsumer = shared_consumer(
            brokers, client_id="stateplan-planner", reconnect_backoff_max_ms=1000
        )
        self.looked: float | None = None
        self.ends: Offsets = {}
        self.size: float | None = None
        self.sampled = 0.0
        self.committed_offset: Offset | None = None
        self.planned_at: float | None = None
        self.marks: Marks | None = None
        self._admin: AdminClient | None = None

    # ---- what there is -----------------------------------------------------------------------------------------

    def partitions(self, wait: float | None = None) -> dict[str, list[int]]:
        """The partitions of each topic that there are now.

        Raises:
            RunError: RUN112, a topic does not exist; RUN110, RUN111, RUN113, RUN118.
        """
        wait = self.brokers.time_out if wait is None else wait
        topics = self._list_topics(self.topics[0] if len(self.topics) == 1 else None, wait)
        if self.pattern is None:
            names = list(self.topics)
        else:
            own = {name for name in topics if not name.startswith("__")}
            names = sorted(name for name in own if self.pattern.fullmatch(name))
            if not names:
                raise RunError(
                    "RUN112.pattern",
                    pattern=self.pattern.pattern,
                    table=self.brokers.table,
                    servers=self.brokers.servers,
                    hint=nearest(self.pattern.pattern, own),
                )
        return {name: self._partitions_of(name, topics.get(name), wait) for name in names}

    def _list_topics(self, topic: str | None, wait: float) -> dict[str, Any]:
        """What brokers know of a topic, or of all: name to metadata."""

        def ask(left: float) -> dict[str, Any]:
            arguments = {} if topic is None else {"topic": topic}
            return dict(self.client.consumer.list_topics(**arguments, timeout=left).topics)

        return self.brokers.ask(ask, self.client.poll, self.client.complaints, wait)

    def _partitions_of(self, topic: str, metadata: Any, wait: float) -> list[int]:
        error = None if metadata is None else metadata.error
        if metadata is not None and error is None and metadata.partitions:
            return sorted(metadata.partitions)
        if error is not None and error.name() not in NO_TOPIC:
            raise self.brokers.error(error, topic=topic)
        own = [name for name in self._list_topics(None, wait) if not name.startswith("__") and name != topic]
        raise RunError(
            "RUN112", topic=topic, table=self.brokers.table, servers=self.brokers.servers, hint=nearest(topic, own)
        )

    def ids(self, topics: Sequence[str], read: bool = False) -> dict[str, str]:
        """The ids of topics that exist, if the brokers report ids. ``read`` are topics that the job has begun to read.

        Raises:
            RunError: RUN112, a topic does not exist, or not any more.
        """
        from confluent_kafka import KafkaException, TopicCollection

        admin, wait = self._admin_client(), self.brokers.time_out

        def ask(left: float) -> dict[str, str]:
            answers = admin.describe_topics(TopicCollection(list(topics)), request_timeout=left)
            ids: dict[str, str] = {}
            for name, future in answers.items():
                failure = future.exception()
                if isinstance(failure, KafkaException):
                    cause = failure.args[0]
                    if cause.name() in NO_TOPIC and read:
                        servers = self.brokers.servers
                        raise RunError("RUN112.deleted", topic=name, table=self.brokers.table, servers=servers)
                    if cause.name() in NO_TOPIC:
                        raise self.brokers.error(cause, self.client.complaints, wait, name)
                    if passes(cause):
                        raise KafkaException(cause)
                    continue  # a broker of before 2.8: offsets say what there is to say
                topic_id = future.result().topic_id
                if topic_id is not None and (
                    topic_id.get_most_significant_bits() or topic_id.get_least_significant_bits()
                ):
                    ids[name] = str(topic_id)
            return ids

        return self.brokers.ask(ask, self.client.poll, self.client.complaints, wait)

    def _admin_client(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        if self._admin is None:
            settings = self.brokers.settings(producer=False)
            self._admin = AdminClient({**settings, "error_cb": self.client.complaints})
        return self._admin

    def compacted_topics(self, topics: Sequence[str]) -> list[str]:
        """Those of some topics whose messages brokers may remove because of later ones with the same key.

        Raises:
            RunError: RUN110 to RUN113, RUN118.
        """
        from confluent_kafka.admin import ConfigResource, ResourceType

        admin = self._admin_client()

        def ask(left: float) -> list[str]:
            resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
            answers = admin.describe_configs(resources, request_timeout=left)
            policies = {resource.name: future.result()["cleanup.policy"].value for resource, future in answers.items()}
            return sorted(topic for topic, policy in policies.items() if "compact" in (policy or ""))

        return self.brokers.ask(ask, self.client.poll, self.client.complaints, self.brokers.time_out)

    def offsets_at(self, places: Sequence[Place], at: int) -> Offsets:
        """The offsets of partitions by time.

        Args:
            places: the partitions.
            at: ms since 1970: the first message of that time or later; -2: the first message; -1: the end.

        Returns:
            Offsets; -1 where there is no such message.
        """
        from confluent_kafka import TopicPartition

        requests = [TopicPartition(topic, number, at) for topic, number in places]
        return self._offsets(self.client.consumer.offsets_for_times, requests)

    def _offsets(self, call: Callable[..., list[TopicPartition]], requests: Sequence[TopicPartition]) -> Offsets:
        """The offsets that a call of the client returns for some partitions. Raises as :meth:`_answer`."""
        from confluent_kafka import KafkaException

        def ask(left: float) -> list[TopicPartition]:
            partitions = call(requests, timeout=left)
            for partition in partitions:
                if partition.error is not None:
                    raise KafkaException(partition.error)
            return partitions

        places = [(request.topic, request.partition) for request in requests]
        answer = self._answer(ask, places) if places else []
        return {(partition.topic, partition.partition): partition.offset for partition in answer}

    def _answer(self, ask: Callable[[float], T], places: Sequence[Place]) -> T:
        """The answer to a call about partitions. Raises RunError RUN110 to RUN113, RUN115, RUN118."""
        wait = self.brokers.time_out

        def explain_missing() -> None:
            partitions = {
                topic: self._partitions_of(topic, self._list_topics(topic, wait).get(topic), wait)
                for topic in sorted({topic for topic, _ in places})
            }
            self._all_there(places, partitions)

        return self.brokers.ask(ask, self.client.poll, self.client.complaints, wait, explain_missing)

    def _all_there(self, places: Iterable[Place], partitions: Mapping[str, Sequence[int]]) -> None:
        """Checks that topics which are there have all of some partitions. Raises RunError RUN115."""
        for topic, number in sorted(places):
            if topic in partitions and number not in partitions[topic]:
                raise RunError("RUN115.gone", topic=topic, partition=number, table=self.brokers.table)

    def committed_offsets(self, places: Sequence[Place]) -> Offsets:
        """The offsets of the group; partitions without one are left out."""
        from confluent_kafka import TopicPartition

        if self.brokers.group is None:
            return {}
        requests = [TopicPartition(topic, number) for topic, number in places]
        offsets = self._offsets(self.client.consumer.committed, requests)
        return {place: offset for place, offset in offsets.items() if offset >= 0}

    # ---- where partitions begin and end ------------------------------------------------------------------------

    def begins(self, places: Sequence[Place]) -> Offsets:
        """Where partitions begin when the job has no checkpoint.

        Raises:
            RunError: RUN112, a partition that the options name does not exist; RUN116, the group has no offset;
                RUN117, an offset that the options or the group name does not exist.
        """
        mode = self.start.mode
        if mode == "earliest-offset":
            return self.offsets_at(places, FIRST)
        if mode == "latest-offset":
            return self.offsets_at(places, LAST)
        if mode == "timestamp":
            return self._by_time(places, self.start.millis)
        begin_offsets: Offsets = {}
        if mode == "specific-offsets":
            begin_offsets = self._specific(places, self.start)
        left = [place for place in places if place not in begin_offsets]
        begin_offsets |= self.committed_offsets(left)
        default = "earliest" if mode == "specific-offsets" else "none"
        return self._valid(places, begin_offsets, self.brokers.properties.get("auto.offset.reset", default).lower())

    def _valid(self, places: Sequence[Place], offsets: Offsets, otherwise: str) -> Offsets:
        """``offsets`` where there are such offsets; elsewhere what ``auto.offset.reset`` says."""
        first, last = self.offsets_at(places, FIRST), self.offsets_at(places, LAST)
        replacements = {"earliest": first, "latest": last}.get(otherwise)
        has_reset_option = "auto.offset.reset" in self.brokers.properties
        out: Offsets = {}
        for place in places:
            topic, number = place
            at = offsets.get(place)
            if at is not None and first[place] <= at <= last[place]:
                out[place] = at
            elif replacements is not None and (at is None or has_reset_option):
                out[place] = replacements[place]
            elif at is None:
                raise self._no_offset(topic, number)
            else:
                source = "scan.startup.specific-offsets" if number in self.start.offsets else None
                raise RunError(
                    "RUN117",
                    source=f"'{source}'" if source else f"the group '{self.brokers.group}'",
                    topic=topic,
                    partition=number,
                    table=self.brokers.table,
                    offset=at,
                    first=first[place],
                    last=last[place],
                )
        return out

    def _specific(self, places: Sequence[Place], bound: Bound) -> Offsets:
        topic = places[0][0]
        for number in bound.offsets:
            if (topic, number) not in places:
                last = max(p for _, p in places)
                raise RunError("RUN112.partition", topic=topic, partition=number, table=self.brokers.table, last=last)
        return {(topic, number): at for number, at in bound.offsets.items()}

    def _by_time(self, places: Sequence[Place], at: int) -> Offsets:
        offsets = self.offsets_at(places, at)
        last = self.offsets_at([place for place in places if offsets[place] < 0], LAST)
        return offsets | last

    def _bounds(self, places: Sequence[Place]) -> Offsets:
        """Where partitions end: for each what is known when it is first requested."""
        fresh = [place for place in places if place not in self.ends]
        mode = self.end.mode
        if fresh:
            if mode == "latest-offset":
                self.ends |= self.offsets_at(fresh, LAST)
            elif mode == "timestamp":
                self.ends |= self._by_time(fresh, self.end.millis)
            elif mode == "group-offsets":
                offsets = self.committed_offsets(fresh)
                for topic, number in fresh:
                    if (topic, number) not in offsets:
                        raise self._no_offset(topic, number, "RUN116.end")
                self.ends |= offsets
            else:
                offsets = self._specific(fresh, self.end)
                self.ends |= {place: offsets.get(place, 0) for place in fresh}
        return self.ends

    # ---- micro-batches -----------------------------------------------------------------------------------------

    def initial(self) -> Offset:
        """Where a job without a checkpoint begins."""
        partitions = self.partitions()
        self.looked = time.monotonic()
        places = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
        return self._offset(self.begins(places), self.ids(list(partitions)))

    def latest(self, start: Offset) -> Offset:
        """Where the micro-batch that begins at ``start`` ends; ``start`` where there is nothing to read."""
        at = offsets_of(start)
        ids = dict(start.get("ids", {}))
        marks = self.same_topics(start)
        new = self._discovered(at)
        if new:
            ids |= self.ids(sorted({topic for topic, _ in new} - ids.keys()))
            at = at | new
        places = sorted(at)
        last = self.offsets_at(places, LAST)
        for place in places:
            if last[place] < at[place]:
                raise self.beyond(place, at[place], last[place])
        if self.end.mode != "unbounded":
            bounds = self._bounds(places)
            last = {place: max(at[place], min(last[place], bounds[place])) for place in places}
        behind = {place: last[place] - at[place] for place in places if last[place] > at[place]}
        free = behind if self.aligner is None else self._aligned(self.aligner, at, behind)
        if not behind and not new:
            self._note({}, places)
            self.commit(start)  # Spark does not report that the last micro-batch of bounded input has been processed
            return start
        for place, first in self.offsets_at(sorted(behind), FIRST).items():
            if first > at[place]:
                raise lost_messages(self.brokers, *place, at[place], first)
        now = time.monotonic()
        since = None if self.planned_at is None else now - self.planned_at
        delayed = not new and self._delayed(sum(behind[place] for place in free), since)
        counts = shares(free, self._limit(at, free)) if free and not delayed else {}
        left = {place: rows - counts.get(place, 0) for place, rows in behind.items() if rows > counts.get(place, 0)}
        self._note(left, places)
        waiting_offsets = {place: at[place] for place in left if not counts.get(place)}
        turn: Offset = {}
        if not any(counts.values()) and not new:
            # An operator takes a partition for idle that no micro-batch names.
            if delayed or not self.idle_timeout or (since is not None and since < self.idle_timeout / 2):
                return start
            turn = {"turn": time.time_ns() // 1_000_000}
        self.planned_at = now
        ends = {place: at[place] + counts.get(place, 0) for place in places}
        marks.renew({place: (at[place], ends[place]) for place in places if place[0] not in ids})
        return self._offset(ends, ids, new, waiting_offsets) | turn

    def _aligned(self, aligner: Aligner, at: Offsets, behind: Mapping[Place, int]) -> dict[Place, int]:
        """How many messages of each partition may be read; those that have to wait are omitted."""
        read, rows = ({part_of(place): n for place, n in some.items()} for some in (at, behind))
        free = aligner.open(read, rows)
        return {place: free[part_of(place)] for place in behind if part_of(place) in free}

    def _note(self, left: Mapping[Place, int], places: Sequence[Place]) -> None:
        """Tells the other sources of the group what is left to read after the micro-batch."""
        if self.aligner is not None:
            self.aligner.note({part_of(place): n for place, n in left.items()}, [part_of(place) for place in places])

    def _delayed(self, rows: int, since: float | None) -> bool:
        """Whether the micro-batch waits for more messages; a bounded source that gives none has ended."""
        return self.end.mode == "unbounded" and self.limits.waits(rows, since, self.idle_timeout)

    def same_topics(self, start: Offset) -> Marks:
        """Checks that topics are those that have been read. Raises RunError RUN112, RUN115.

        Returns:
            The marks of partitions.
        """
        places = [*offsets_of(start)]
        now = self.ids(sorted({topic for topic, _ in places}), read=True)
        ids: Mapping[str, str] = start.get("ids", {})
        for topic, known_id in ids.items():
            if now.get(topic, known_id) != known_id:
                raise RunError("RUN115.other", topic=topic, table=self.brokers.table)
        if self.marks is None:
            marks = Marks(self.brokers, start.get("marks", {}))
            checked_topics = {topic for topic, _ in marks.check(places)}
            if any(topic not in checked_topics for topic, _ in places):
                self._same_servers(start)
            self.marks = marks
        return self.marks

    def _same_servers(self, start: Offset) -> None:
        """Checks the addresses of brokers of which nothing else says that they are those that were read."""
        servers: Sequence[str] | None = start.get("servers")
        if servers is not None and not set(servers) & set(self._servers):
            raise RunError(
                "RUN115.moved", table=self.brokers.table, servers=self.brokers.servers, before=",".join(servers)
            )

    @property
    def _servers(self) -> list[str]:
        return [address.strip() for address in self.brokers.servers.split(",")]

    def _offset(
        self,
        offsets: Offsets,
        ids: Mapping[str, str],
        new: Offsets | None = None,
        waiting_offsets: Offsets | None = None,
    ) -> Offset:
        """What a checkpoint keeps. If brokers report no ids of topics, addresses and marks identify the topics."""
        offset: Offset = {**offsets_as(offsets), "ids": dict(sorted(ids.items()))}
        if any(topic not in ids for topic, _ in offsets):
            offset["servers"] = self._servers
            if self.marks is not None:
                offset["marks"] = self.marks.to_offset()
        return offset | {key: _nested(some) for key, some in (("new", new), ("waiting", waiting_offsets)) if some}

    def _discovered(self, at: Offsets) -> Offsets:
        """Partitions that have not been read so far, with their first offsets. Raises RunError RUN115."""
        bounded = self.end.mode != "unbounded"
        now = time.monotonic()
        if self.looked is not None and (bounded or not self.discovery or now - self.looked < self.discovery):
            return {}
        self.looked = now
        topics = self.partitions()
        self._all_there(at, topics)
        places = {(topic, number) for topic, numbers in topics.items() for number in numbers}
        return self.offsets_at(sorted(places - at.keys()), FIRST)

    def _no_offset(self, topic: str, number: int, key: str = "RUN116") -> RunError:
        group = self.brokers.group
        return RunError(key, group=group, topic=topic, partition=number, table=self.brokers.table)

    def beyond(self, place: Place, at: int, last: int) -> RunError:
        """The error for a partition that ends before an offset that was read."""
        topic, number = place
        return RunError("RUN115", topic=topic, partition=number, table=self.brokers.table, last=last, offset=at)

    def _limit(self, at: Offsets, behind: Mapping[Place, int]) -> int | None:
        """Maximum number of messages of a micro-batch."""
        now, count = time.monotonic(), sum(behind.values())
        if count > _SAMPLED and (self.size is None or now - self.sampled > _SAMPLED_EVERY):
            place = max(behind, key=lambda p: behind[p])
            average = mean_size(self.brokers, place, at[place] + behind[place], behind[place])
            self.size, self.sampled = average or self.size, now
        most = self.limits.max_bytes
        if self.pace is not None and self.pace.max_bytes is not None:
            most = min(most, self.pace.max_bytes)
        by_size = max(1, int(most / self.size)) if self.size else None
        limits = (self.limits.max_rows, by_size, None if self.pace is None else self.pace.rows())
        return min((limit for limit in limits if limit is not None), default=None)

    def commit(self, end: Offset) -> None:
        """Tells the group how far the job has advanced, without waiting for an answer: the checkpoint is what
        counts."""
        from confluent_kafka import KafkaException, TopicPartition

        if self.brokers.group is None or not self.acknowledges:
            return
        if end == self.committed_offset:
            return
        self.committed_offset = end
        offsets = [TopicPartition(*place, at) for place, at in sorted(offsets_of(end).items())]
        try:
            self.client.consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException:  # the next micro-batch commits more
            return
        self.client.poll()


def offsets_of(offset: Offset, key: str = "offsets") -> Offsets:
    """Kafka's offsets by topic and partition, from the offset of a micro-batch."""
    nested_offsets: Mapping[str, Mapping[str, int]] = offset.get(key, {})
    return {(topic, int(number)): at for topic, numbers in nested_offsets.items() for number, at in numbers.items()}


def offsets_as(offsets: Offsets) -> Offset:
    """What :func:`offsets_of` reads, of an offset of the source."""
    return {"offsets": _nested(offsets)}


def part_of(place: Place) -> str:
    """The name of a partition as a part of the source."""
    topic, number = place
    return f"{topic}/{number}"


def _nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets by topic and partition, always in the same order."""
    out: dict[str, dict[str, int]] = {}
    for (topic, number), at in sorted(offsets.items()):
        out.setdefault(topic, {})[str(number)] = at
    return out


def shares(behind: Mapping[Place, int], limit: int | None) -> dict[Place, int]:
    """How many messages of each partition a micro-batch reads.

    Args:
        behind: how many there are, none of them 0.
        limit: for all together; None for no limit.

    Returns:
        In proportion to what there is, so that partitions come to their ends together; at most ``limit`` in all.
    """
    total = sum(behind.values())
    if limit is None or total <= limit:
        return dict(behind)
    out = {place: count * limit // total for place, count in behind.items()}
    left = limit - sum(out.values())
    for place in sorted(behind, key=lambda p: (out[p], -behind[p], p))[:left]:
        out[place] += 1
    return out


def splits_between(start: Offset, end: Offset) -> list[KafkaSplit]:
    """The splits of a micro-batch: one for each partition, also without rows, and several for many rows."""
    begins, ends = offsets_of(start) | offsets_of(end, "new"), offsets_of(end)
    waiting_offsets = offsets_of(end, "waiting")
    total = sum(at - begins[place] for place, at in ends.items())
    most = max(_LEAST, -(-total // _TASKS))
    out: list[KafkaSplit] = []
    for (topic, number), stop in sorted(ends.items()):
        at = begins[topic, number]
        parts = max(1, -(-(stop - at) // most))
        edges = [at + (stop - at) * i // parts for i in range(parts + 1)]
        for one, other in pairwise(edges):
            place = topic, number
            out.append(KafkaSplit(topic, number, one, other, part=part_of(place), waits=place in waiting_offsets))
    return out
