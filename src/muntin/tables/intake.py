"""Checks incoming messages, advances the watermarks, and assigns the messages to partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from muntin.model.axis import MIN_POSITION, is_representable
from muntin.stores.keys import encode_part
from muntin.tables import packed, typed
from muntin.tables.clocks import EventArrival
from muntin.tables.copartition import assign_partitions
from muntin.tables.partition import Partition, Rejected
from muntin.tables.sources import NumberedMessage, TopicMessage
from muntin.tables.stream import EventRow, Inbox
from muntin.tables.time_values import parse_point_in_time
from muntin.tables.topic import Topic

if TYPE_CHECKING:
    from muntin.tables.app import App

ReadValue = Callable[[Any], Any]


class Intake:
    """The input of one open app.

    Watermarks advance message by message, in order of arrival, so they don't depend on how the
    input is cut into batches.
    """

    def __init__(self, app: App, parts: Sequence[Partition]) -> None:
        self._app = app
        self._parts = parts
        self.watermarks: dict[str, int] = {}
        for part in parts:
            for clock, watermark in part.watermarks.items():
                self.watermarks[clock] = max(watermark, self.watermarks.get(clock, MIN_POSITION))
        self._readers: dict[str, tuple[ReadValue, ReadValue]] = {}
        self._arrived = 0

    def convert_messages(self, messages: Sequence[NumberedMessage]) -> dict[str, list[EventRow]]:
        """Return messages by topic, without those that are rejected on arrival."""
        rows_by_topic: dict[str, list[EventRow]] = {}
        for name, number, message in messages:
            rows = rows_by_topic.setdefault(name, [])
            row = self._convert_message(
                self._app.topics[name], -1 if number is None else number, message
            )
            if row is not None:
                rows.append(row)
        return rows_by_topic

    def _convert_message(self, topic: Topic, number: int, message: TopicMessage) -> EventRow | None:
        partition = self._parts[0]
        partition.counts["seen"] += 1
        value, key, time, needs_key, needs_time, read_error = message
        if read_error is not None:
            return self._reject(topic, number, message, "malformed", read_error)
        read, read_key = self._get_readers(topic)
        time_micros = None
        try:
            if time is None and needs_time:
                return self._reject(topic, number, message, "null_time")
            time_micros = partition.wall if time is None else _to_position(time)
            # On Spark, a task judges the time and the key before a shard reads the value.
            excluded = partition.judge_time(time_micros)
            if excluded is not None:
                return self._reject(topic, number, message, excluded, time=time_micros)
            key = None if key is None else _check_storable(read_key(key))
            if needs_key and key is None:
                return self._reject(topic, number, message, "null_key", time=time_micros)
            value = read(value)
        except Exception as error:
            # Any error while reading a message means that its data is malformed.
            return self._reject(topic, number, message, "malformed", str(error), time=time_micros)
        partition.counts["taken"] += 1
        watermark = self._advance_clock(topic.name, time_micros - topic.lateness)
        self._arrived += 1
        arrival = EventArrival(self._arrived, self._advance_field_clocks(topic, value))
        return value, key, time_micros, watermark, number, arrival

    def _advance_clock(self, clock: str, watermark: int) -> int:
        """Advance a clock to a watermark; return the watermark that it had before."""
        before = self.watermarks.get(clock, MIN_POSITION)
        if watermark > before:
            self.watermarks[clock] = watermark
        return before

    def _advance_field_clocks(self, topic: Topic, value: Any) -> tuple[int, ...]:
        """Advance the clocks that follow times in values; return the watermarks before that."""
        watermarks = []
        for clock in self._app.clocks:
            time = clock.read_time(value)
            if time is None or self._parts[0].judge_time(time) is not None:
                watermarks.append(self.watermarks.get(clock.name_for(topic.name), MIN_POSITION))
            else:
                watermarks.append(
                    self._advance_clock(clock.name_for(topic.name), time - topic.lateness)
                )
        return tuple(watermarks)

    def _get_readers(self, topic: Topic) -> tuple[ReadValue, ReadValue]:
        readers = self._readers.get(topic.name)
        if readers is None:
            readers = typed.make_reader(topic.value_type), typed.make_reader(topic.key_type)
            self._readers[topic.name] = readers
        return readers

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
        event = Rejected(
            topic.name,
            reason,
            message.value,
            message.key,
            time,
            number,
            detail=detail,
            watermark=self.watermarks.get(topic.name),
        )
        self._parts[0].record_rejected(event)
        return None

    def fill(self, inbox: Inbox, rows: Sequence[EventRow]) -> None:
        """Put rows into an inbox, grouped as it requires, each in the partition of its key."""
        if inbox.by is not None:
            rows = [row for row in (self._group_row(inbox, row) for row in rows) if row is not None]
        by_part: dict[int, list[EventRow]] = defaultdict(list)
        for row, owner in zip(
            rows, assign_partitions([row[1] for row in rows], len(self._parts)), strict=True
        ):
            by_part[owner].append(row)
        for owner in sorted(by_part):
            inbox.put(self._parts[owner], by_part[owner], len(by_part[owner]))

    def _group_row(self, inbox: Inbox, row: EventRow) -> EventRow | None:
        assert inbox.by is not None
        value, old_key, time, watermark, number, arrival = row
        key, problem = inbox.by.find_group(value)
        reason = "null_key" if problem is None else "malformed"
        if key is not None:
            return value, key, time, watermark, number, arrival
        reported_watermark = None if watermark == MIN_POSITION else watermark
        event = (value, old_key, time, number, inbox.cursor.agent)
        self._parts[0].record_rejected(
            Rejected(inbox.topic, reason, *event, None, problem, reported_watermark)
        )
        return None


def _to_position(time: Any) -> int:
    """Convert a time to microseconds; refuse one outside the range of windows."""
    position = parse_point_in_time(time)
    if not is_representable(position):
        raise ValueError(f"the time {time!r} is outside the range of windows")
    return position


def _check_storable(key: Any) -> Any:
    """Return the key if a table can store it, and raise otherwise."""
    kind = type(key)
    if kind is str:
        if not key.isascii():
            key.encode()
    elif kind is not int or not -(2**63) <= key < 2**63:
        if key != key:
            raise ValueError(f"{key!r} isn't equal to itself, so it can't be found again")
        hash(key)
        encode_part(key)
        packed.write_json(key)
    return key
