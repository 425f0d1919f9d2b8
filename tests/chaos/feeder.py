"""Messages as the world sends them: out of order, twice, broken, from the future, and in floods."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from tests.services.kafka import Kafka
from tests.spark.feed import MESSAGE, Feed, at

# The topic's last partition never gets a message.
PARTITIONS = 4
_PER_TICK, _FLOOD = 150, 10


@dataclass
class Feeder:
    """Sends messages, and keeps what should be counted.

    Attributes:
        sent: How many messages of which fate.
    """

    broker: Kafka
    topic: str
    chance: random.Random
    sent: Counter[str] = field(default_factory=Counter)
    _good: list[dict[str, Any]] = field(default_factory=list)
    _moment: float = 0.0

    def tick(self, flood: bool = False) -> None:
        """Send some messages, ten times as many in a flood."""
        count = _PER_TICK * (_FLOOD if flood else 1)
        messages = [self._one() for _ in range(count)]
        self.chance.shuffle(messages)
        partitions = range(PARTITIONS - 1)
        self.broker.send(
            self.topic, [(self.chance.choice(partitions), None, value) for value in messages]
        )

    def _one(self) -> bytes:
        dice = self.chance.random()
        if dice < 0.01:
            self.sent["malformed"] += 1
            return self.chance.randbytes(12)
        if dice < 0.02:
            self.sent["future"] += 1
            return _payload({"source": "x", "number": self.sent["future"], "key": "hot",
                             "at": "2099-01-01T00:00:00Z", "value": 1})  # fmt: skip
        if dice < 0.07 and self._good:
            self.sent["duplicates"] += 1
            return _payload(self.chance.choice(self._good[-2000:]))
        self.sent["counted"] += 1
        self._moment += 0.01
        number = len(self._good)
        message = {
            "source": f"s{number % 3}",
            "number": number // 3,
            "key": "hot" if self.chance.random() < 0.5 else f"k{self.chance.randrange(20)}",
            "at": at(self._moment + self.chance.uniform(0, 600)).isoformat(),
            "value": self.chance.randrange(1000),
        }
        self._good.append(message)
        return _payload(message)

    def counts(self) -> dict[str, int]:
        """What the query's figures must say."""
        return {"seen": sum(self.sent.values()), **self.sent}

    def windows(self, folder: Path, size: int, slide: int) -> list[tuple[Any, ...]]:
        """The final table, by DuckDB."""
        feed = Feed(folder)
        good = pa.Table.from_pylist([{"id": n, **m} for n, m in enumerate(self._good)])
        with duckdb.connect() as connection:
            connection.register("good", good)
            timed = connection.execute("SELECT id, key, at::TIMESTAMPTZ AS at, value FROM good")
            feed.add_table(timed.to_arrow_table().cast(MESSAGE))
        return feed.windows(size, slide)


def _payload(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode()
