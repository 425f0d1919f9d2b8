"""Sends messages to a topic until a test ends it, and says which of them must be rejected."""

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
PER_TURN, TURNS, BURST, BURST_SECONDS = 10, 20, 10, 3
# Seconds of event time in a second: a run of a minute sees windows open and close for hours.
PACE = 400
KEYS = [f"k{number}" for number in range(20)]
FAR_TOO_LATE, FUTURE = timedelta(days=-2), timedelta(days=365 * 100)


@dataclass
class Traffic:
    """Sends messages from a thread; half of them have the same key, and one partition is idle.

    Attributes:
        kafka: The broker, which may go away and come back.
        topic: A topic of ``PARTITIONS`` partitions.
        dice: Draws the messages.
        per_turn: The number of messages per turn; there are ``TURNS`` turns a second.
    """

    kafka: Kafka
    topic: str
    dice: random.Random
    per_turn: int = PER_TURN
    sent_count: int = 0
    _is_over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.kafka.servers,
            "enable.idempotence": True,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        self._producer = Producer(settings)
        self._started_at = time.monotonic()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop sending, and wait until all messages have arrived."""
        self._is_over.set()
        self._thread.join(60)
        assert self._producer.flush(120) == 0

    def _run(self) -> None:
        while not self._is_over.wait(1 / TURNS):
            for _ in range(self.per_turn):
                self._send(self._make_message())
            self._producer.poll(0)

    def _send(self, payload: bytes) -> None:
        key = "hot" if self.dice.random() < 0.5 else self.dice.choice(KEYS)
        # Two senders may deliver the same message, which must then count twice.
        for _ in range(2 if self.dice.random() < 0.01 else 1):
            self._producer.produce(self.topic, payload, key, self.dice.randrange(IDLE))
            self.sent_count += 1

    def _make_message(self) -> bytes:
        if self.dice.random() < 0.005:
            return self.dice.choice([b"{", b"", b"\xff\xfe", b'{"at": "yesterday"}'])
        event_time = at(
            3600 + PACE * (time.monotonic() - self._started_at) + self.dice.uniform(-120, 0)
        )
        # The first messages can't be late, since there is no watermark yet.
        if self.sent_count > 5000 and self.dice.random() < 0.005:
            event_time += FAR_TOO_LATE
        elif self.dice.random() < 0.003:
            event_time += FUTURE
        body = {
            "id": self.sent_count,
            "at": event_time.isoformat(),
            "value": self.dice.randrange(1000),
        }
        return json.dumps(body).encode()


def get_reason(message: Message) -> str | None:
    """Return why a message must be rejected, or None if it must count."""
    try:
        moment = json.loads(message.value())["at"]
    except (ValueError, KeyError):
        return "malformed"
    if moment == "yesterday":
        return "malformed"
    year = int(moment[:4])
    return "future" if year > 2100 else "late" if year < 2026 else None
