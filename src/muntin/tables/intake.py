"""Messages on their way in: checked, judged by the watermark, and sorted to partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from muntin.model.axis import FARTHEST
from muntin.stores.keys import encode_part
from muntin.tables import packed, typed
from muntin.tables.clocks import ArrivalMarks
from muntin.tables.copartition import partitions_of
from muntin.tables.moments import BEGINNING, moment
from muntin.tables.partition import Partition, Rejected
from muntin.tables.sources import NumberedMessage, TopicMessage
from muntin.tables.stream import EventRow, Inbox
from muntin.tables.topic import Topic

if TYPE_CHECKING:
    from muntin.tables.app import App

Read = Callable[[Any], Any]


class Intake:
    """The way in, for one open app.

    Watermarks are kept message by message, in order of arrival, so that it doesn't matter how the
    input is cut into batches.
    """

    def __init__(self, app: App, parts: Sequence[Partition]) -> None:
        self._app = app
        self._parts = parts
        self.marks: dict[str, int] = {}
        for part in parts:
            for clock, mark in part.marks.items():
                self.marks[clock] = max(mark, self.marks.get(clock, BEGINNING))
        self._readers: dict[str, tuple[Read, Read]] = {}
        self._arrived = 0

    def rows(self, messages: Sequence[NumberedMessage]) -> dict[str, list[EventRow]]:
        """Messages by topic, without those that are rejected at once."""
        found: dict[str, list[EventRow]] = {}
        for name, number, message in messages:
            rows = found.setdefault(name, [])
            row = self._row(self._app.topics[name], -1 if number is None else number, message)
            if row is not None:
                rows.append(row)
        return found

    def _row(self, topic: Topic, number: int, message: TopicMessage) -> EventRow | None:
        first = self._parts[0]
        first.counts["seen"] += 1
        value, key, time, keyed, timed, unread = message
        if unread is not None:
            return self._reject(topic, number, message, "malformed", unread)
        read, read_key = self._reader(topic)
        try:
            if time is None and timed:
                return self._reject(topic, number, message, "null_time")
            at = first.wall if time is None else _position(time)
            value = read(value)
            key = None if key is None else _storable(read_key(key))
        except Exception as error:
            # Whatever reading it raises, it is data that is wrong.
            return self._reject(topic, number, message, "malformed", str(error))
        if keyed and key is None:
            return self._reject(topic, number, message, "null_key", time=at)
        if first.is_future(at):
            return self._reject(topic, number, message, "future", time=at)
        first.counts["taken"] += 1
        judged = self._follow(topic.name, at - topic.lateness)
        self._arrived += 1
        arrival = ArrivalMarks(self._arrived, self._fields(topic, value))
        return value, key, at, judged, number, arrival

    def _follow(self, clock: str, upto: int) -> int:
        """Let a clock come further; how far it had come before."""
        before = self.marks.get(clock, BEGINNING)
        if upto > before:
            self.marks[clock] = upto
        return before

    def _fields(self, topic: Topic, value: Any) -> tuple[int, ...]:
        """How far the clocks have come that follow times in values; they come further by this."""
        found = []
        for clock in self._app.clocks:
            time = clock.time(value)
            if time is None or self._parts[0].is_future(time):
                found.append(self.marks.get(clock.feed(topic.name), BEGINNING))
            else:
                found.append(self._follow(clock.feed(topic.name), time - topic.lateness))
        return tuple(found)

    def _reader(self, topic: Topic) -> tuple[Read, Read]:
        found = self._readers.get(topic.name)
        if found is None:
            found = typed.reader(topic.value_type), typed.reader(topic.key_type)
            self._readers[topic.name] = found
        return found

    def _reject(
        self,
        topic: Topic,
        number: int,
        message: TopicMessage,
        reason: str,
        detail: str | None = None,
        *,
        time: int | None = None,
    ) -> EventRow | None:
        mark, given = self.marks.get(topic.name), (message.value, message.key, time, number)
        event = Rejected(topic.name, reason, *given, detail=detail, watermark=mark)
        self._parts[0].set_aside(event)
        return None

    def fill(self, inbox: Inbox, rows: Sequence[EventRow]) -> None:
        """Put rows into an inbox, by the partitions that it wants."""
        if inbox.by is not None:
            rows = [row for row in (self._keyed(inbox, row) for row in rows) if row is not None]
        by_part: dict[int, list[EventRow]] = defaultdict(list)
        for row, owner in zip(
            rows, partitions_of([row[1] for row in rows], len(self._parts)), strict=True
        ):
            by_part[owner].append(row)
        for owner in sorted(by_part):
            inbox.put(self._parts[owner], by_part[owner], len(by_part[owner]))

    def _keyed(self, inbox: Inbox, row: EventRow) -> EventRow | None:
        assert inbox.by is not None
        value, old, time, judged, number, arrival = row
        reason, detail, key = "null_key", None, None
        try:
            key = inbox.by.of(value)
        except Exception as error:
            # The function is the user's, and may be surprised by a value; that stops no stream.
            reason, detail = "malformed", f"group_by({inbox.by.name}): {error!r}"
        if key is not None:
            return value, key, time, judged, number, arrival
        mark = None if judged == BEGINNING else judged
        event = (value, old, time, number, inbox.cursor.agent)
        self._parts[0].set_aside(Rejected(inbox.topic, reason, *event, None, detail, mark))
        return None


def _position(time: Any) -> int:
    """A time that windows can be reckoned from."""
    at = moment(time)
    if abs(at) >= FARTHEST:
        raise ValueError(f"the time {time!r} lies beyond what windows reach")
    return at


def _storable(key: Any) -> Any:
    """A key that tables can keep."""
    kind = type(key)
    if kind is str:
        if not key.isascii():
            key.encode()
    elif kind is not int or not -(2**63) <= key < 2**63:
        if key != key:
            raise ValueError(f"{key!r} isn't equal to itself, so that nobody would find it")
        hash(key)
        encode_part(key)
        packed.dumps(key)
    return key
