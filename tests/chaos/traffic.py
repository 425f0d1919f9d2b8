"""Messages sent to a topic for as long as a test wants, and what they should come to."""

from __future__ import annotations

import json
import random
import threading
import time
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from confluent_kafka import Message, Producer
from tests.services.kafka import Kafka
from tests.spark.feed import at

PARTITIONS, IDLE = 4, 3
# Messages a turn, turns a second, and how many times as many messages a burst has, for how long.
PER_TURN, TURNS, BURST, BURST_SECONDS = 30, 20, 10, 5
# Seconds of event time in a second: a run of a minute sees windows open and close for hours.
PACE = 400
KEYS = [f"k{number}" for number in range(20)]
HOPELESS, FUTURE = timedelta(days=-2), timedelta(days=365 * 100)


@dataclass
class Traffic:
    """Sends from a thread of its own; half of all messages have one key, one partition is idle.

    Attributes:
        kafka: The broker, which may go away and come back.
        topic: A topic of ``PARTITIONS`` partitions.
        chance: What decides.
        per_turn: Messages sent at once, ``TURNS`` times a second.
    """

    kafka: Kafka
    topic: str
    chance: random.Random
    per_turn: int = PER_TURN
    sent: int = 0
    _over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.kafka.servers,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Send no more, and see that all has arrived."""
        self._over.set()
        self._thread.join(60)
        assert self._producer.flush(120) == 0

    def _run(self) -> None:
        while not self._over.wait(1 / TURNS):
            for _ in range(self.per_turn):
                self._send(self._message())
            self._producer.poll(0)

    def _send(self, payload: bytes) -> None:
        key = "hot" if self.chance.random() < 0.5 else self.chance.choice(KEYS)
        # The same message may be delivered by two senders: it counts twice, and must stay so.
        for _ in range(2 if self.chance.random() < 0.01 else 1):
            self._producer.produce(self.topic, payload, key, self.chance.randrange(IDLE))
            self.sent += 1

    def _message(self) -> bytes:
        if self.chance.random() < 0.005:
            return self.chance.choice([b"{", b"", b"\xff\xfe", b'{"at": "yesterday"}'])
        moment = at(3600 + PACE * (time.monotonic() - self._began) + self.chance.uniform(-120, 0))
        # Not among the first, which have no watermark to be late by.
        if self.sent > 5000 and self.chance.random() < 0.005:
            moment += HOPELESS
        elif self.chance.random() < 0.003:
            moment += FUTURE
        body = {"id": self.sent, "at": moment.isoformat(), "value": self.chance.randrange(1000)}
        return json.dumps(body).encode()


def reason(message: Message) -> str | None:
    """Why a message must be rejected; ``None`` where it must count."""
    try:
        moment = json.loads(message.value())["at"]
    except (ValueError, KeyError):
        return "malformed"
    if moment == "yesterday":
        return "malformed"
    year = int(moment[:4])
    return "future" if year > 2100 else "late" if year < 2026 else None
