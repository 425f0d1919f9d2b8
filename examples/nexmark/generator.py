"""The events of Nexmark, an auction house: the same for the same seed, in columns.

Every fiftieth event is a new person, three of fifty open an auction, the rest are bids. All that an
event holds follows from its number alone (ids by counting, everything else by hashing the number),
so that any stretch of the stream can be made by anybody, in any order.

Proportions, hot sellers, bidders and auctions, prices and ids are those of the Apache Beam suite
(P. Tucker, K. Tufte, V. Papadimos, D. Maier: "NEXMark – A Benchmark for Queries over Data Streams",
2008). Its random numbers aren't: Beam seeds a generator for each event.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROUND = 50
PERSONS, AUCTIONS, BIDS = 1, 3, 46
"""Of each round of 50 events the first is a person, then three auctions, then 46 bids."""

FIRST_ID = 1000
FIRST_CATEGORY, CATEGORIES = 10, 5
ACTIVE_PERSONS, ACTIVE_AUCTIONS = 1000, 100
PERSONS_AHEAD, AUCTIONS_AHEAD = 10, 10
HOT_EVERY = 100
"""The hot seller, bidder and auction change with every hundredth id."""

T0_MS = 1_700_000_000_000

STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")
CITIES = (
    "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle",
    "Kent", "Cheyenne",
)  # fmt: skip
FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter")
LAST_NAMES = (
    "Shultz",
    "Abrams",
    "Spencer",
    "White",
    "Bartels",
    "Walton",
    "Smith",
    "Jones",
    "Noris",
)
CHANNELS = ("Google", "Facebook", "Baidu", "Apple")

TIME = pa.timestamp("us", "UTC")

Numbers = np.ndarray


@dataclass(frozen=True)
class Nexmark:
    """A stream of events.

    Attributes:
        per_second: Events in a second of event time.
        seed: Another seed gives other events, with the same ids and times.
    """

    per_second: int = 10_000
    seed: int = 0

    def persons(self, start: int, stop: int) -> pa.Table:
        """The persons among the events ``[start, stop)``, in order of their numbers."""
        n = _events(start, stop, 0, PERSONS)
        first, last = self._choice(n, 0, FIRST_NAMES), self._choice(n, 1, LAST_NAMES)
        mail = _joined(pc.utf8_lower(first), pc.utf8_lower(last), "@")
        return pa.table(
            {
                "id": n // ROUND + FIRST_ID,
                "name": _joined(first, last, " "),
                "email": _joined(mail, "com", "."),
                "city": self._choice(n, 2, CITIES),
                "state": self._choice(n, 3, STATES),
                "time": self.times(n),
            }
        )

    def auctions(self, start: int, stop: int) -> pa.Table:
        """The auctions among the events ``[start, stop)``, in order of their numbers."""
        n = _events(start, stop, PERSONS, AUCTIONS)
        opening = self._price(n, 0)
        hot = self._below(n, 2, 4) > 0
        seller = np.where(hot, _last_person(n) // HOT_EVERY * HOT_EVERY, self._person(n, 3))
        # An auction lasts as long as it takes to open, on average, a hundred others.
        span_ms = 1000 * ACTIVE_AUCTIONS * ROUND // (AUCTIONS * self.per_second)
        length = 1 + self._below(n, 4, max(1, 2 * span_ms))
        return pa.table(
            {
                "id": _last_auction(n) + FIRST_ID,
                "seller": seller + FIRST_ID,
                "category": self._below(n, 5, CATEGORIES) + FIRST_CATEGORY,
                "opening": opening,
                "reserve": opening + self._price(n, 1),
                "time": self.times(n),
                "expires": self.times(n, length),
            }
        )

    def bids(self, start: int, stop: int) -> pa.Table:
        """The bids among the events ``[start, stop)``, in order of their numbers."""
        n = _events(start, stop, PERSONS + AUCTIONS, BIDS)
        last = _last_auction(n)
        least = np.maximum(last - ACTIVE_AUCTIONS, 0)
        other = least + self._below(n, 1, last - least + 1 + AUCTIONS_AHEAD)
        hot = self._below(n, 0, 2) > 0
        auction = np.where(hot, last // HOT_EVERY * HOT_EVERY, other)
        hot = self._below(n, 2, 4) > 0
        bidder = np.where(hot, _last_person(n) // HOT_EVERY * HOT_EVERY + 1, self._person(n, 3))
        small = _joined("channel", pc.cast(pa.array(self._below(n, 6, 10_000)), pa.string()), "-")
        large = pa.array(self._below(n, 5, 2) > 0)
        return pa.table(
            {
                "auction": auction + FIRST_ID,
                "bidder": bidder + FIRST_ID,
                "price": self._price(n, 4),
                "channel": pc.if_else(large, self._choice(n, 7, CHANNELS), small),
                "time": self.times(n),
            }
        )

    def times(self, n: Numbers, later_ms: Numbers | int = 0) -> pa.Array:
        """Event times of the events ``n``: evenly spaced, to the millisecond."""
        return pa.array((T0_MS + n * 1000 // self.per_second + later_ms) * 1000, TIME)

    def _person(self, n: Numbers, draw: int) -> Numbers:
        """One of the thousand newest persons, or one of ten that are still to come."""
        known = _last_person(n) + 1
        active = np.minimum(known, ACTIVE_PERSONS)
        return known - active + self._below(n, draw, active + PERSONS_AHEAD)

    def _price(self, n: Numbers, draw: int) -> Numbers:
        """Cents: from 1 to a million dollars, as likely to have one digit as another number."""
        even = (self._hash(n, draw) >> np.uint64(11)).astype(np.float64) / 2.0**53
        return np.rint(10.0 ** (6.0 * even) * 100.0).astype(np.int64)

    def _choice(self, n: Numbers, draw: int, values: tuple[str, ...]) -> pa.Array:
        return pa.array(values, pa.string()).take(pa.array(self._below(n, draw, len(values))))

    def _below(self, n: Numbers, draw: int, bound: Numbers | int) -> Numbers:
        """Whole numbers from 0 to below ``bound``."""
        return ((self._hash(n, draw) >> np.uint64(33)).astype(np.int64)) % bound

    def _hash(self, n: Numbers, draw: int) -> Numbers:
        """The splitmix64 of the seed, an event's number, and which of its draws it is."""
        with np.errstate(over="ignore"):
            z = n.astype(np.uint64) * np.uint64(16) + np.uint64(draw)
            z = (z + np.uint64(self.seed << 48)) * np.uint64(0x9E3779B97F4A7C15)
            z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            return z ^ (z >> np.uint64(31))


def _joined(one: Any, other: Any, between: str) -> pa.Array:
    return pc.binary_join_element_wise(one, other, between)


def _events(start: int, stop: int, first: int, many: int) -> Numbers:
    """Numbers of the events in ``[start, stop)`` whose place in their round is one of ``many``."""
    rounds = np.arange(start // ROUND, -(-stop // ROUND), dtype=np.int64)
    n = (rounds[:, None] * ROUND + np.arange(first, first + many)).ravel()
    return n[(n >= start) & (n < stop)]


def _last_person(n: Numbers) -> Numbers:
    """The newest person when an event happens, counted from 0."""
    return n // ROUND


def _last_auction(n: Numbers) -> Numbers:
    """The newest auction when an event happens, counted from 0; a round's persons come first."""
    opened = np.clip(n % ROUND - PERSONS + 1, 0, AUCTIONS)
    return np.maximum(n // ROUND * AUCTIONS + opened - 1, 0)
