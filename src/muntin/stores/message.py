"""The message store: the messages of past and current windows, each exactly once.

Source: the Samza SQL window operator design, "Message Store". It asks for R.1 range queries over
all retained messages, R.2 fast access within a window, R.3 a fast way to drop expired ones, and
R.4 that a replayed message isn't stored twice.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from muntin.model.axis import Duration
from muntin.model.errors import OptionError
from muntin.stores import keys
from muntin.stores.kv import KeyValue, Row
from muntin.stores.layout import Layout, MessagePlace, StorePosition, message_layout
from muntin.stores.namespace import NamedStore, Namespace, NamespaceView, length, required_key


class Message(NamedTuple):
    """One stored message; ``time`` (microseconds) is ``None`` on the rows axis."""

    time: int | None
    offset: int
    payload: Any
    equal: Any = None
    session: Any = None


class MessageStore(NamedStore):
    """Messages by position, in the order that ``message_layout`` chose.

    Guarantees:
        - A message whose position (time and offset) is stored already changes nothing (R.4). One
          at or before the retention's edge, or before what was retired, isn't taken. Both are
          counted (``duplicates``, ``expired``).
        - ``get_messages`` returns what was there when it was called, in order of the layout's key;
          ``reverse=True`` is exactly the opposite. Expired messages don't show.
        - ``retire`` deletes oldest first; messages of one time go together.

    Args:
        kv: Where rows are kept; other stores may be in it.
        layout: The order of keys; by default time, then offset.
        name: The store's name in ``kv``.
        retention: How long a message is kept: those with ``time > observed - retention`` (on the
            rows axis, so many offsets); ``None`` keeps it indefinitely.
        most_rows: How many messages are kept after ``retire``; ``None`` sets no bound.
        codec: ``"json"`` or ``"raw"`` (bytes).

    Raises:
        OptionError: When an option can't work.
        SpecChangedError: When the rows were written with other options.

    Example:
        >>> from muntin.stores import memory
        >>> store = MessageStore(memory(), retention="1 minute")
        >>> for time, offset in [(0, 1), (50_000_000, 2), (50_000_000, 2), (70_000_000, 3)]:
        ...     _ = store.add("payload", time=time, offset=offset)
        >>> [m.offset for m in store.get_messages(reverse=True)], store.duplicates
        ([3, 2], 1)
        >>> store.retire(), store.rows
        (1, 2)
    """

    def __init__(
        self,
        kv: KeyValue,
        *,
        layout: Layout | None = None,
        name: str = "messages",
        retention: Duration | int | None = None,
        most_rows: int | None = None,
        codec: str = "json",
    ) -> None:
        self.layout = layout or message_layout()
        self.retention = None if retention is None else length("retention", retention)
        self.most_rows = None if most_rows is None else length("most_rows", most_rows)
        identity = {"kind": "message", "layout": f"{self.layout.axis}: {self.layout}"}
        super().__init__(Namespace(kv, name, identity, codec))

    @property
    def rows(self) -> int:
        """Number of stored messages, with expired ones that aren't deleted yet."""
        return self._namespace.counts.get("rows", 0)

    @property
    def duplicates(self) -> int:
        """Number of messages that were already stored when they came again."""
        return self._namespace.counts.get("duplicates", 0)

    def add(
        self,
        payload: Any,
        *,
        offset: int,
        time: int | None = None,
        equal: Any = None,
        session: Any = None,
    ) -> bool:
        """Store a message.

        Args:
            payload: What the codec can write.
            offset: Its place in the source.
            time: Its event time, microseconds; needed on the time axis.
            equal: The fields that a join compares; found again by ``get_messages(equal=)``.
            session: The session key, where the layout has one.

        Returns:
            Whether it was stored: neither a duplicate nor expired.

        Raises:
            OptionError: When a part of the layout's key is null, or the codec can't write it.
        """
        place = self._place(offset, time, equal, session)
        value = self._namespace.codec.to_bytes(payload)
        position = self.layout.position(place)
        self._namespace.observe(position)
        key = self.layout.key(offset=offset, time=place.time, equal=equal, session=session)
        if self._namespace.get(key) is not None:
            self._namespace.count("duplicates")
            return False
        edge = self._edge()
        if edge is not None and position <= edge:
            self._namespace.count("expired")
            return False
        if "equal" not in self.layout.parts:
            value = keys.encode_part(equal) + value
        self._namespace.put(key, value)
        self._namespace.count("rows")
        return True

    def advance(self, position: int) -> None:
        """Note that the axis has come this far; what expires by it waits for ``retire``."""
        self._namespace.observe(position)

    def get_messages(
        self,
        start: StorePosition = None,
        end: StorePosition = None,
        *,
        equal: Any = None,
        session: Any = None,
        reverse: bool = False,
    ) -> Iterator[Message]:
        """The messages from a position to another, both included.

        Where equal fields or a session come first in the layout and are given, what has expired
        among them is deleted on the way: the design's lazy clean-up.

        Args:
            start: A time, ``(time, offset)``, or an offset on the rows axis; ``None`` is open.
            end: The same.
            equal: Only messages with these equal fields.
            session: Only messages of this session key.
            reverse: Last first.

        Raises:
            OptionError: When ``(time, offset)`` is given on the rows axis, or a session where the
                layout has none.
        """
        for option, position in (("start", start), ("end", end)):
            if self.layout.axis == "rows" and isinstance(position, tuple):
                raise OptionError(option, position, "has a time", "give an offset on this axis")
        self._check_session(session)
        self._sweep(equal, session)
        start = self._alive(start)
        low, high, exact = self.layout.in_window(start, end, equal=equal, session=session)
        view = self._namespace.rows(low, high)
        found = (self._read(row) for row in (reversed(view) if reverse else view))
        if exact:
            return found
        return (m for m in found if self._wanted(m, start, end, equal, session))

    def retire(self, limit: int | None = None) -> int:
        """Delete what the retention no longer keeps, oldest first.

        Where the layout begins with the position, this is one range; elsewhere, every key is
        looked at.

        Args:
            limit: About how many to delete at most. Messages of one time go together, so that it
                may be some more, and is never nothing while there is something to delete.

        Returns:
            How many went; 0 when there is nothing left to delete.

        Raises:
            OptionError: When the limit is below 1.
        """
        most = self.rows if limit is None else length("limit", limit)
        cut, gone = self._due(most)
        if cut is None:
            return 0
        if self.layout.along_axis:
            low, high, _ = self.layout.expired(cut)
            self._namespace.delete_range(low, high)
            self._namespace.count("rows", -gone)
        else:
            gone = self._pick(self._namespace.rows(), cut)
        self._namespace.counts["floor"] = cut
        return gone

    def _edge(self) -> int | None:
        """The greatest position that isn't kept any more."""
        edges = []
        if self.retention is not None and self.observed is not None:
            edges.append(self.observed - self.retention)
        if "floor" in self._namespace.counts:
            edges.append(self._namespace.counts["floor"])
        return max(edges, default=None)

    def _alive(self, start: StorePosition) -> StorePosition:
        edge = self._edge()
        first = start[0] if isinstance(start, tuple) else start
        return start if edge is None or (first is not None and first > edge) else edge + 1

    def _place(self, offset: int, time: int | None, equal: Any, session: Any) -> MessagePlace:
        self._check_session(session)
        if self.layout.axis == "rows":
            time = None
        for option, value in (("time", time), ("equal", equal), ("session", session)):
            if option in self.layout.parts:
                required_key(option, value)
        return MessagePlace(session, equal, time, offset)

    def _check_session(self, session: Any) -> None:
        if session is not None and "session" not in self.layout.parts:
            hint = "choose message_layout(session=True)"
            raise OptionError("session", session, f"isn't in the layout {self.layout}", hint)

    def _read(self, row: Row) -> Message:
        place = self.layout.read(row[0])
        equal, value = place.equal, row[1]
        if "equal" not in self.layout.parts:
            equal, at = keys.decode_part(value)
            value = value[at:]
        payload = self._namespace.codec.from_bytes(value)
        return Message(place.time, place.offset, payload, equal, place.session)

    def _wanted(
        self, message: Message, start: StorePosition, end: StorePosition, equal: Any, session: Any
    ) -> bool:
        # As keys compare: every layout must find the same, and to Python 1 is True.
        for wanted, found in ((equal, message.equal), (session, message.session)):
            if wanted is not None and keys.encode_part(wanted) != keys.encode_part(found):
                return False
        place = MessagePlace(message.session, message.equal, message.time, message.offset)
        return self.layout.holds(place, start, end)

    def _positions(self) -> Iterator[int]:
        return (self.layout.position(self.layout.read(key)) for key, _ in self._namespace.rows())

    def _due(self, most: int) -> tuple[int | None, int]:
        """Up to which position messages go now, and how many these are along the axis."""
        ordered: Iterable[int] = self._positions()
        if not self.layout.along_axis:
            ordered = heapq.nsmallest(most, ordered)
        excess = 0 if self.most_rows is None else self.rows - self.most_rows
        edge = self._edge()
        cut: int | None = None
        gone = 0
        for position in ordered:
            if position != cut:
                if gone >= most or not (gone < excess or (edge is not None and position <= edge)):
                    break
                cut = position
            gone += 1
        return cut, gone

    def _sweep(self, equal: Any, session: Any) -> None:
        """Delete what has expired among the fields that come before the position, if known."""
        edge = self._edge()
        given = {"session": session, "equal": equal}
        before = {part: given[part] for part in self.layout.parts if part in given}
        if edge is None or self.layout.along_axis or None in before.values():
            return
        low, high, _ = self.layout.expired(edge, **before)
        self._pick(self._namespace.rows(low, high), edge)

    def _pick(self, view: NamespaceView, cut: int) -> int:
        gone = 0
        for key, _ in view:
            if self.layout.position(self.layout.read(key)) <= cut:
                self._namespace.delete(key)
                gone += 1
        self._namespace.count("rows", -gone)
        return gone
