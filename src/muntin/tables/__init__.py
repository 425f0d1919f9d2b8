"""Windowed tables and the agents that write them, in this process.

Source: Faust's guide, "Tables and Windowing".
"""

from muntin.tables.app import App
from muntin.tables.current import Event
from muntin.tables.partition import Rejected
from muntin.tables.record import Record
from muntin.tables.running import Running
from muntin.tables.sources import Memory, Source, memory, source
from muntin.tables.spec import WindowRange
from muntin.tables.stream import Stream
from muntin.tables.table import SetTable, Table
from muntin.tables.topic import Topic
from muntin.tables.windowed import WindowedTable, WindowSet

__all__ = [
    "App",
    "Event",
    "Memory",
    "Record",
    "Rejected",
    "Running",
    "SetTable",
    "Source",
    "Stream",
    "Table",
    "Topic",
    "WindowRange",
    "WindowSet",
    "WindowedTable",
    "memory",
    "source",
]
