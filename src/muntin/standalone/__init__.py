"""Window operators that need no Spark: one process, with their own store.

Source: the Samza SQL window operator design. ``WindowedAggregator`` and ``SessionAggregator`` take
messages, one by one or in batches, and emit their windows. ``JoinWindow`` and
``SessionJoinWindow`` take the messages of two streams and emit pairs. State is kept in memory
or in RocksDB, and flushed with the offsets in one write.

Example:
    >>> from muntin import count
    >>> from muntin.standalone import WindowedAggregator, windowed
    >>> op = WindowedAggregator(windowed(key="page", time="at").tumbling("1 minute").agg(n=count()))
    >>> op.add_messages([{"page": "home", "at": "2026-01-01T09:00:10"}], final=True)
    >>> op.get_result()["n"].to_list()
    [1]
"""

from __future__ import annotations

from muntin.standalone.aggregators import SessionAggregator, WindowedAggregator
from muntin.standalone.join_windows import JoinWindow, SessionJoinWindow
from muntin.standalone.message_table import MessageTable
from muntin.standalone.operator import Flushed
from muntin.standalone.sentence import Windowed, join, windowed

__all__ = [
    "Flushed",
    "JoinWindow",
    "MessageTable",
    "SessionAggregator",
    "SessionJoinWindow",
    "Windowed",
    "WindowedAggregator",
    "join",
    "windowed",
]
