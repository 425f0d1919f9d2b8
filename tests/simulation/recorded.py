"""A run of the chaos suite, as the simulator replays it.

A record has the batches of a query on Spark, and what was killed during which of them
(``tests/chaos/recording.py``). Its messages aren't kept. Others, fewer by a factor, take their
place: of the same partitions, in the same batches, late, in the future and malformed as those were.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tests.chaos.survivor import SIZE, SLIDE
from tests.doors import Batch
from tests.property.streams import Stream
from tests.simulation.cases import Case
from tests.simulation.faults import ChosenFaults

from muntin.model import aggregates
from muntin.model.axis import DAY, HOUR, SECOND
from muntin.model.policies import Each, Firing
from muntin.model.spec import WindowSpec
from muntin.model.windows import Windows

T = TypeVar("T")
RECORD = Path(__file__).with_name("recorded.json")
SHARDS = 2
_MESSAGES_PER_MESSAGE = 50
_BATCHES_AFTER_FAULTS = 5
_KEYS = ["hot"] * 5 + ["a", "b", "c", "d", "e"]
_KILLS_OF_DRIVERS = {"driver killed", "JVM killed"}
_KILLS_OF_WORKERS = {"Python worker killed", "Python daemon killed"}
_SPEC = WindowSpec(
    ("key",),
    "time",
    Windows(SIZE * SECOND, SLIDE * SECOND),
    {
        "n": aggregates.count(),
        "total": aggregates.sum("value"),
        "most": aggregates.max("value"),
    },
    firing=Firing(early=Each(), late=Each(), grace=4 * HOUR, retention=4 * HOUR),
    lateness=600 * SECOND,
    max_ahead=900 * SECOND,
    types={"key": "string", "value": "long", "partition": "long", "offset": "long"},
    offset=("partition", "offset"),
)


@dataclass(frozen=True)
class Record:
    """What a run of the chaos suite went through.

    Attributes:
        faults: The name of each fault, the first batch that wasn't committed then, and whether that
            batch had begun.
        batches: How many messages each batch read, by partition.
        counts: The figures at the end.
    """

    faults: Sequence[dict[str, Any]]
    batches: Sequence[Sequence[int]]
    counts: dict[str, int]

    @property
    def repeated(self) -> int:
        """How many batches had begun when their driver was killed."""
        return sum(one["in_flight"] and one["fault"] in _KILLS_OF_DRIVERS for one in self.faults)


def read_record(path: Path = RECORD) -> Record:
    """Read a record up to some batches after its last fault; those behind them say nothing new."""
    record = Record(**json.loads(path.read_text()))
    last = max(one["batch"] for one in record.faults)
    return replace(record, batches=record.batches[: last + _BATCHES_AFTER_FAULTS])


class ReplayedFaults(ChosenFaults):
    """The faults of a record. Nothing else fails, and batches end where they ended."""

    def choose(self, name: str, values: Sequence[T]) -> T:
        """One of some values; of a plan, the whole batch."""
        return values[0] if name.startswith("plan ") else super().choose(name, values)


def name_faults(record: Record, moment: str) -> Collection[str]:
    """Name the simulator's events for the faults of a record.

    Args:
        record: The record.
        moment: The event of a batch at which a driver is killed, since records don't say when.
    """
    return list(_name_events(record, moment))


def _name_events(record: Record, moment: str) -> Iterator[str]:
    life = 0
    for one in record.faults:
        name, batch, in_flight = one["fault"], one["batch"], one["in_flight"]
        if name in _KILLS_OF_DRIVERS:
            yield f"life {life}, batch {batch} {moment if in_flight else 'begins'}"
            life += 1
        elif name in _KILLS_OF_WORKERS:
            yield f"life {life}, batch {batch}, an executor is lost"
            yield f"life {life}, batch {batch}, task 0 dies"
            dying = range(SHARDS) if name == "Python daemon killed" else [0]
            yield from (f"life {life}, batch {batch}, shard {shard} dies" for shard in dying)


def make_case(record: Record) -> Case:
    """Make a case whose steps are the batches of a record."""
    chance = random.Random(7)
    offsets: dict[int, int] = {}
    steps, now = [], 0.0
    for counts in record.batches:
        now += sum(counts)
        messages = []
        for partition, count in enumerate(counts):
            for _ in range(-(-count // _MESSAGES_PER_MESSAGE)):
                offset = offsets[partition] = offsets.get(partition, -1) + 1
                message = _draw_message(now, chance)
                messages.append({**message, "partition": partition, "offset": offset})
        chance.shuffle(messages)
        steps.append(Batch(messages, int(now * SECOND)))
    return Case("spark", Stream(_SPEC, steps), (SHARDS,), 7, 0.0)


def _draw_message(now: float, chance: random.Random) -> dict[str, Any]:
    key, value = chance.choice(_KEYS), chance.randrange(1000)
    time: Any = int((now + chance.uniform(-120, 0)) * SECOND)
    fate = chance.random()
    if fate < 0.02:
        time = "soon"
    elif fate < 0.05:
        time -= 2 * DAY
    elif fate < 0.07:
        time += 36_500 * DAY
    return {"key": key, "time": time, "value": value}
