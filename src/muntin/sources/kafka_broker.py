"""A Kafka cluster as the planner of batches sees it: partitions, offsets and ids of topics."""

from __future__ import annotations

import json
import logging
import re
import socket
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from muntin.model.errors import OptionError, SourceError
from muntin.model.patience import AwayError, Patience
from muntin.model.printable import escape_line
from muntin.model.references import resolve_all
from muntin.sources.kafka_consumer import QUIET, refuse_access

Offsets = dict[str, dict[str, int]]
TopicIds = dict[str, str]
Starting = str | int | Mapping[str, Mapping[str, int]]

# The default time that brokers may be away, in seconds.
PATIENCE = 120.0
# The limits of one request and of a first connection, in seconds.
_REQUEST, _CONNECTING = 10.0, 5.0
# How long a topic that existed before may be unknown: a broker that just started is still loading.
_LOADING = 5.0
_EARLIEST, _LATEST = -2, -1
# librdkafka's message about a broker that another one has named, with its address and number.
_NAMED_BROKER = re.compile(r"(\S+:\d+)/\d+: (.+)")
# The id of topics on brokers that have no ids.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
_LOG = logging.getLogger(__name__)
# Settings of consumers, which an admin client refuses.
_CONSUMER_ONLY = frozenset(
    ("isolation.level", "group.id", "auto.offset.reset", "enable.partition.eof",
     "enable.auto.commit", "queued.max.messages.kbytes", "fetch.wait.max.ms")
)  # fmt: skip


class MissingTopicError(AwayError):
    """The brokers don't have a topic now, or don't have it yet."""

    def __init__(self, problem: str, topic: str) -> None:
        super().__init__(problem, f"has no {topic} now")
        self.topic = topic


class Refusal(NamedTuple):
    """Brokers that answer, but refuse a connection.

    Attributes:
        symptom: What they do, in a sentence about them.
        hint: What to do.
        seconds: How long to retry: brokers that start may be loading their users.
    """

    symptom: str
    hint: str
    seconds: float = 2.0


_LOGIN = Refusal("refuses the login", "Correct the login")
_ENCRYPTION = Refusal(
    "refuses the encryption", "Correct security.protocol, the port or the certificates"
)
_ADDRESS = Refusal(
    "names an address that doesn't answer",
    "Correct advertised.listeners of that broker, or bring it back",
    seconds=0.0,
)


@dataclass(frozen=True)
class Topics:
    """The topics to read, and the options of reading them.

    Attributes:
        starting: ``earliest``, ``latest``, ``group``, a time in milliseconds since the epoch, or
            offsets by topic and partition.
        per_batch: Approximate messages per batch; ``None`` for all that exist.
        lossy: Whether to continue if messages were deleted before they were read.
        patience: How long brokers may be away, in seconds.
        group: The consumer group to which offsets are committed, if any.
        bytes_per_batch: Approximate bytes per batch; ``None`` for the default of the host.
    """

    names: tuple[str, ...]
    starting: Starting
    per_batch: int | None
    client: Mapping[str, str] = field(repr=False)
    lossy: bool = False
    patience: float = PATIENCE
    group: str | None = None
    bytes_per_batch: int | None = None


@dataclass(frozen=True)
class Described:
    """The partitions of topics, and their ids if the brokers have them.

    Attributes:
        partitions: Numbers of each topic's partitions, without deleted topics.
        ids: Id of each topic; a topic that is created again has another id.
    """

    partitions: dict[str, list[int]]
    ids: TopicIds


class Broker:
    """Queries a cluster about its topics, and retries while the brokers are away."""

    def __init__(self, topics: Topics) -> None:
        self.topics = topics
        self.servers = topics.client["bootstrap.servers"]
        self.waiting = Patience(f"Kafka at {self.servers}", topics.patience)
        self._problem = ""
        self._refusal: Refusal | None = None
        self._is_reachable = False
        self._known_topics: set[str] = set()
        # Whether offsets could be committed so far.
        self._commits = True
        settings = {**QUIET, **resolve_all(topics.client), "error_cb": self._note_problem}
        ours = {name: value for name, value in settings.items() if name not in _CONSUMER_ONLY}
        self._settings = dict[str, Any](ours)
        self._admin = self._connect()

    def _connect(self) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._settings)

    def describe(self) -> Described:
        """Return the partitions and ids of the topics, which must exist."""
        if not self._is_reachable:
            refuse_unreachable(self.servers)
            self._is_reachable = True
        deadline = time.monotonic() + _LOADING
        while True:
            described = self._run(lambda: self.describe_now(self.topics.names))
            gone = [name for name in self.topics.names if name not in described.partitions]
            if not gone:
                self._known_topics.update(self.topics.names)
                return described
            if any(name not in self._known_topics for name in gone):
                raise SourceError(f"topic {gone[0]!r} isn't on {self.servers}; create it first")
            if time.monotonic() > deadline:
                return described
            time.sleep(0.2)

    def remember(self, names: Collection[str]) -> None:
        """Note that topics existed before, as a checkpoint says."""
        self._known_topics.update(names)

    def offsets(self, which: int, partitions: Mapping[str, Iterable[int]]) -> Offsets:
        """Return the earliest (-2) or latest (-1) offset of each partition, or that of a time.

        A time is in milliseconds since the epoch. Its offset is that of the first message that
        isn't older, or the end if all are.
        """
        return self._run(lambda: self._list_offsets(which, partitions))

    def earliest(self, partitions: Mapping[str, Iterable[int]]) -> Offsets:
        """Return the first offset of each partition that can still be read."""
        return self.offsets(_EARLIEST, partitions)

    def latest(self, partitions: Mapping[str, Iterable[int]]) -> Offsets:
        """Return the offset after the last message of each partition."""
        return self.offsets(_LATEST, partitions)

    def first(self, partitions: Mapping[str, list[int]]) -> Offsets:
        """Return the offsets where a new query begins."""
        starting = self.topics.starting
        if starting == "group":
            return self._fetch_committed(partitions)
        if isinstance(starting, str):
            return self.offsets(_EARLIEST if starting == "earliest" else _LATEST, partitions)
        if isinstance(starting, int):
            return self.offsets(starting, partitions)
        ends = {which: self.offsets(which, partitions) for which in (_EARLIEST, _LATEST)}
        return {
            topic: {
                str(p): ends[offset][topic][str(p)] if offset < 0 else offset
                for p in numbers
                for offset in [starting.get(topic, {}).get(str(p), _EARLIEST)]
            }
            for topic, numbers in partitions.items()
        }

    def commit(self, ends: Offsets) -> None:
        """Commit offsets to the consumer group, if there is one; a failure is logged once."""
        from confluent_kafka import TopicPartition

        if self.topics.group is None:
            return
        offsets = [
            TopicPartition(t, int(p), n) for t, some in ends.items() for p, n in some.items()
        ]
        deadline = time.monotonic() + _LOADING
        while (problem := self._try_to_commit(offsets)) is not None:
            # A broker that just started loads its groups; other failures last longer.
            lasts = not self._commits or time.monotonic() > deadline
            if lasts or isinstance(problem, SourceError):
                break
            time.sleep(0.2)
        if problem is not None and self._commits:
            _LOG.warning(
                "offsets of group %s aren't committed, and the query goes on without: %s",
                self.topics.group, escape_line(problem),
            )  # fmt: skip
        self._commits = problem is None

    def _try_to_commit(self, offsets: Sequence[Any]) -> SourceError | AwayError | None:
        """Commit offsets to the group, and return the error if that fails."""
        try:
            self._ask_about_group("alter_consumer_group_offsets", offsets)
        except (SourceError, AwayError) as error:
            return error
        return None

    def ids(self, topics: Collection[str]) -> TopicIds:
        """Return the ids of those topics that exist."""
        return dict(self._run(lambda: self.describe_now(topics)).ids)

    def _fetch_committed(self, partitions: Mapping[str, list[int]]) -> Offsets:
        """Return the offsets that the group has committed; by default the earliest."""
        from confluent_kafka import TopicPartition

        asked = [TopicPartition(t, p) for t, numbers in partitions.items() for p in numbers]
        first = self.earliest(partitions)
        for one in self._run(lambda: self._ask_about_group("list_consumer_group_offsets", asked)):
            if one.offset >= 0:
                first[one.topic][str(one.partition)] = one.offset
        return first

    def _ask_about_group(self, request: str, partitions: Sequence[Any]) -> Sequence[Any]:
        """Send a request for the group's offsets, and return those of the answer.

        A consumer would wait a minute for a group that its user has no rights to.
        """
        from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException

        group = str(self.topics.group)
        asked = [ConsumerGroupTopicPartitions(group, [*partitions])]
        send = getattr(self._admin, request)
        answers = self._ask(lambda: send(asked, request_timeout=_REQUEST))
        try:
            answer = list(answers[group].result(timeout=2 * _REQUEST).topic_partitions)
            for error in filter(None, (one.error for one in answer)):
                raise KafkaException(error)
            return answer
        except KafkaException as error:
            raise self._classify_error(error, f"group {group!r}") from error
        except Exception as error:
            raise AwayError(self._describe_error(error)) from error

    def _run(self, attempt: Any) -> Any:
        def ask() -> Any:
            try:
                return attempt()
            except AwayError as error:
                if (refusal := self._refusal) is None:
                    raise
                if self.waiting.downtime() >= refusal.seconds:
                    raise SourceError(
                        f"servers={self.servers!r}: {error}. {refusal.hint}"
                    ) from None
                raise AwayError(str(error), refusal.symptom, refusal.seconds) from error

        try:
            answer = self.waiting.run(ask)
            self._problem, self._refusal = "", None
            return answer
        except MissingTopicError as error:
            raise SourceError(
                f"{error.topic} isn't on {self.servers} any more, for "
                f"{self.topics.patience:.0f} s. Its messages are gone if it was deleted: create it "
                "again, and start with a new checkpoint folder"
            ) from error
        except AwayError as error:
            raise SourceError(
                f"Kafka at {self.servers} hasn't answered for {self.topics.patience:.0f} s: "
                f"{error}. Bring the brokers back and start the query again, or give it more "
                "patience="
            ) from error

    def describe_now(self, topics: Collection[str]) -> Described:
        """Return the partitions and ids of those topics that exist, without a retry."""
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        asked = TopicCollection([*topics])
        described = Described({}, {})
        # A wrong setting is said soon.
        timeout = _REQUEST if self._known_topics else _CONNECTING
        for name, answer in self._ask(lambda: self._admin.describe_topics(
            asked, request_timeout=timeout
        )).items():  # fmt: skip
            try:
                topic = answer.result(timeout=2 * _REQUEST)
            except KafkaException as error:
                if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                    continue
                raise self._classify_error(error, f"topic {name!r}") from error
            except Exception as error:
                raise AwayError(self._describe_error(error)) from error
            described.partitions[name] = sorted(p.id for p in topic.partitions)
            if (topic_id := str(topic.topic_id)) != _NO_ID:
                described.ids[name] = topic_id
        return described

    def _list_offsets(self, which: int, partitions: Mapping[str, Iterable[int]]) -> Offsets:
        from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        words = {_EARLIEST: OffsetSpec.earliest, _LATEST: OffsetSpec.latest}
        spec = words[which]() if which in words else OffsetSpec.for_timestamp(which)
        asked = {TopicPartition(t, p): spec for t, numbers in partitions.items() for p in numbers}
        if not asked:
            return {}
        level = IsolationLevel.READ_UNCOMMITTED
        if self.topics.client.get("isolation.level") == "read_committed":
            level = IsolationLevel.READ_COMMITTED
        answers = self._ask(lambda: self._admin.list_offsets(
            asked, isolation_level=level, request_timeout=_REQUEST
        ))  # fmt: skip
        offsets: Offsets = {}
        newer = []
        for partition, answer in answers.items():
            try:
                offset = answer.result(timeout=2 * _REQUEST).offset
            except KafkaException as error:
                raise self._classify_error(error, f"topic {partition.topic!r}") from error
            except Exception as error:
                raise AwayError(self._describe_error(error)) from error
            offsets.setdefault(partition.topic, {})[str(partition.partition)] = offset
            if offset < 0:
                newer.append(partition)
        if newer:  # no message is as new as that
            ends = self._list_offsets(_LATEST, partitions)
            for partition in newer:
                topic, number = partition.topic, str(partition.partition)
                offsets[topic][number] = ends[topic][number]
        return offsets

    def _ask(self, request: Any) -> Any:
        try:
            return request()
        except Exception as error:
            raise AwayError(self._describe_error(error)) from error

    def _classify_error(self, error: Any, resource: str) -> Exception:
        """Return an error of the brokers as an exception: ``AwayError`` if a retry may help.

        The ``resource`` is the topic or the group that they were asked about.
        """
        from confluent_kafka import KafkaError

        code = error.args[0].code()
        if code in (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            KafkaError.GROUP_AUTHORIZATION_FAILED,
            KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        ):
            return refuse_access(resource, self.servers, error.args[0])
        if code == KafkaError.TOPIC_EXCEPTION:
            return SourceError(f"{resource} on {self.servers}: {error.args[0].str()}")
        reason = self._describe_error(error)
        if code in (KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH):
            # The client would keep asking with the epoch of a leader that has restarted.
            self._admin = self._connect()
        if code == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return MissingTopicError(reason, resource)
        return AwayError(reason)

    def _note_problem(self, error: Any) -> None:
        """Keep librdkafka's message about its connections; requests only report a timeout."""
        from confluent_kafka import KafkaError

        # That no broker is reached follows the message that says why.
        if error.code() == KafkaError._ALL_BROKERS_DOWN and self._problem:
            return
        self._problem, self._refusal = error.str(), None
        if error.code() == KafkaError._AUTHENTICATION:
            self._refusal = _LOGIN
        # Later, a broker may have been stopped, which also breaks off a handshake.
        elif self._known_topics:
            return
        elif "SSL_HANDSHAKE" in self._problem:
            self._refusal = _ENCRYPTION
        elif named := _NAMED_BROKER.match(self._problem):
            self._note_named_broker(*named.groups())

    def _note_named_broker(self, address: str, problem: str) -> None:
        """Keep that brokers name an address, other than those of ``servers``, without an answer."""
        if address not in self.servers:
            self._problem = (
                f"it takes connections, and names {address} as the address of a broker, which "
                f"doesn't ({problem})"
            )
            self._refusal = _ADDRESS

    def _describe_error(self, error: Exception) -> str:
        self._admin.poll(0)
        cause: Any = error.args[0] if error.args else None
        message = cause.str() if hasattr(cause, "str") else str(error)
        return self._problem or message or type(error).__name__


def refuse_unreachable(servers: str) -> None:
    """Raise when none of the servers takes a connection within five seconds."""
    deadline = time.monotonic() + _CONNECTING
    pause = 0.1
    while True:
        problems = {}
        for server in filter(None, map(str.strip, servers.split(","))):
            host, _, port = server.rpartition("://")[2].rpartition(":")
            if not host or not port.isdecimal():
                host, port = host or port, "9092"
            timeout = max(0.5, deadline - time.monotonic())
            try:
                socket.create_connection((host.strip("[]"), int(port)), timeout).close()
                return
            except (OSError, OverflowError, UnicodeError) as error:
                # Python's own errors say that there is no such port, or no such name of a host.
                problem = getattr(error, "strerror", None) or str(error) or "no answer"
                problems[server] = problem.lower()
        if time.monotonic() + pause > deadline:
            break
        time.sleep(pause)
        pause *= 2
    failures = ", ".join(f"{server}: {problem}" for server, problem in problems.items())
    raise SourceError(
        f"servers={servers!r}: {failures}. Check the address and the port, and that a broker "
        "listens"
    )


def starting_text_of(starting: str | datetime, topics: Sequence[str]) -> str:
    """Return the starting position as text; refuse any other form, and offsets of other topics.

    Example:
        >>> from datetime import UTC
        >>> starting_text_of(datetime(2026, 1, 31, tzinfo=UTC), ["orders"])
        '2026-01-31T00:00:00+00:00'
    """
    text = starting.isoformat() if isinstance(starting, datetime) else starting
    try:
        parsed = starting_of(text)
    except (ValueError, TypeError, AttributeError):
        hint = (
            "give 'earliest', 'latest', 'group', a time with its zone ('2026-01-31T00:00Z'), or "
            'offsets as JSON: {"topic": {"0": 17}}'
        )
        raise OptionError("starting", starting, "isn't a starting position", hint) from None
    others = [topic for topic in parsed if topic not in topics] if isinstance(parsed, dict) else []
    if others:
        problem = f"has offsets of the topic {others[0]!r}, which isn't read"
        raise OptionError("starting", starting, problem, f"give those of {' and '.join(topics)}")
    return text


def starting_of(text: str) -> Starting:
    """Parse a starting position: a word, milliseconds since the epoch, or offsets by partition.

    Raises:
        ValueError: When it is none of these.

    Example:
        >>> starting_of("1970-01-01T00:00:02Z"), starting_of('{"orders": {"0": 17}}')
        (2000, {'orders': {'0': 17}})
    """
    if text in ("earliest", "latest", "group"):
        return text
    if not text.lstrip().startswith("{"):
        at = datetime.fromisoformat(text)
        if at.tzinfo is None:
            raise ValueError(text)
        return round(at.timestamp() * 1000)
    offsets = json.loads(text)
    if not isinstance(offsets, dict) or not all(isinstance(v, dict) for v in offsets.values()):
        raise ValueError(text)
    return {t: {str(int(p)): _offset(o) for p, o in some.items()} for t, some in offsets.items()}


def _offset(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < _EARLIEST:
        raise ValueError(value)
    return value
