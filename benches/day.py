"""The messages of a day, replayed faster than real time: ``python -m benches.day``.

Each message follows from its number alone, so the expected results are known: few messages by night
and many in the evening, a set of keys for each hour, waves of late messages every few hours, some
that are a third of a day late, and some that are malformed.
"""

from __future__ import annotations

import argparse
import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

START = 1_767_225_600_000  # Midnight, in milliseconds.
HOUR = 3_600_000
PARTITIONS = 4
# The interval between two sends, in seconds of the wall clock.
STEP = 0.1
LEAST, MOST = 1_000, 10_000  # messages a second, by night and in the evening
KEYS = 500  # of each hour
# The invalid messages that are sent on purpose, with the reason that the query reports.
REASONS = ("null_key", "null_time", "malformed", "future", "late")
_EVERY = 5_000  # messages of each reason


@dataclass(frozen=True)
class Messages:
    """Some messages in the order in which they are sent.

    Attributes:
        at: Times, in milliseconds.
        keys: Keys.
        values: Values.
        reasons: Reason to reject each, as an index in ``REASONS``; -1 for a valid message.
    """

    at: Any
    keys: Any
    values: Any
    reasons: Any

    def texts(self) -> list[bytes]:
        """Return each message as the JSON that is sent."""
        stamps = np.datetime_as_string(self.at.astype("datetime64[ms]"), timezone="UTC")
        texts = []
        for at, k, v, reason in zip(
            stamps.tolist(), self.keys.tolist(), self.values.tolist(), self.reasons.tolist(),
            strict=True,
        ):  # fmt: skip
            text = f'{{"at":"{at}","k":{k},"v":{v}}}'
            if reason == 0:
                text = f'{{"at":"{at}","k":null,"v":{v}}}'
            elif reason == 1:
                text = f'{{"k":{k},"v":{v}}}'
            elif reason == 2:
                text = text[: 20 + v % 20]
            texts.append(text.encode())
        return texts


@dataclass(frozen=True)
class Day:
    """A day, replayed in some seconds of the wall clock."""

    seconds: float

    @property
    def steps(self) -> int:
        """The number of sends."""
        return round(self.seconds / STEP)

    @property
    def speed(self) -> float:
        """The speed of its clock, relative to the wall clock."""
        return 24 * HOUR / 1000 / self.seconds

    def clock(self, step: float) -> float:
        """Return the day's time at a step, in milliseconds."""
        return START + 24 * HOUR * step / self.steps

    def count(self, step: int) -> int:
        """Return the number of messages at a step, which peaks at eight in the evening."""
        hour = 24 * step / self.steps
        share = (1 + math.cos((hour - 20) * math.pi / 12)) / 2
        return round(STEP * (LEAST + (MOST - LEAST) * share**2))

    def messages(self, step: int) -> Messages:
        """Return the messages of a step."""
        n = self.count(step)
        i = np.arange(n, dtype=np.int64) + step * 1_000_003
        mixed = (i * 1_103_515_245 + 12_345) % 2**31
        hour = 24 * step / self.steps
        at = int(self.clock(step)) - mixed // 11 % 120_000
        # In every fourth hour, a third of the first half's messages are up to 90 minutes late.
        if hour % 4 >= 3 and hour % 1 < 0.5:
            at = at - np.where(mixed // 7 % 3 == 0, mixed // 13 % (HOUR * 3 // 2), 0)
        kind = i % _EVERY
        # No message can be late before there is a watermark.
        reasons = np.where(kind < len(REASONS) - (hour < 1), kind, -1)
        at = np.where(reasons == 3, at + 20 * 365 * 24 * HOUR, at)
        at = np.where(reasons == 4, at - 8 * HOUR, at)
        keys = mixed // 256 % KEYS + int(hour) * KEYS
        return Messages(at, keys, mixed % 1000, reasons)


def send(servers: str, topic: str, day: Day, began: float) -> None:
    """Send the day's messages, each step at its time, and one that closes all windows."""
    from confluent_kafka import Producer

    # Sending waits for brokers that are away, without duplicates or reordering.
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, "enable.idempotence": True,
                         "message.timeout.ms": 600_000, "log_level": 2,
                         "queue.buffering.max.messages": 2_000_000})  # fmt: skip
    errors = []

    def note_error(error: Any, _: Any) -> None:
        if error is not None:
            errors.append(error)

    behind = 0.0
    for step in range(day.steps):
        due = began + step * STEP
        time.sleep(max(0.0, due - time.time()))
        behind = max(behind, time.time() - due)
        for n, text in enumerate(day.messages(step).texts()):
            producer.produce(topic, text, None, n % PARTITIONS, on_delivery=note_error)
        producer.poll(0)
    end = np.datetime_as_string(np.datetime64(START + 48 * HOUR, "ms"), timezone="UTC")
    for partition in range(PARTITIONS):
        last = f'{{"at":"{end}","k":-1,"v":0}}'
        producer.produce(topic, last.encode(), None, partition, on_delivery=note_error)
    producer.flush(600)
    if errors or len(producer):
        raise RuntimeError(f"{len(errors)} messages weren't sent: {errors[:1]}")
    print(f"behind its clock by {behind:.2f} s at most", flush=True)


def main() -> None:
    """Send a day's messages to a topic."""
    parser = argparse.ArgumentParser(prog="benches.day", description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("topic")
    parser.add_argument("seconds", type=float)
    parser.add_argument("began", type=float)
    arguments = parser.parse_args()
    send(arguments.servers, arguments.topic, Day(arguments.seconds), arguments.began)


if __name__ == "__main__":
    main()
