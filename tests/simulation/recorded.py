"""Turns a record of the chaos suite into a case of the simulator.

A record has the batches of a query on Spark, and the faults during them
(``tests/chaos/recording.py``). It has no messages. Drawn messages, fewer by a factor, replace them:
of the same partitions, in the same batches, and as often late, in the future and malformed.
"""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from tests.chaos.survivor import SIZE, SLIDE
from tests.chaos.traffic import BURST, BURST_SECONDS, PER_TURN, TURNS
from tests.property.streams import Stream
from tests.runners import Batch
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
_OUTAGE_OF_SOURCES, _OUTAGE_OF_SINKS = "broker crashed", "database crashed"
_BURST, _MESSAGES_OF_BURST = "ten times the load", PER_TURN * TURNS * BURST * BURST_SECONDS
_TASKS = 3
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
    """A record of a run of the chaos suite.

    Attributes:
        faults: The name of each fault, the first batch that wasn't committed then, and whether that
            batch had begun.
        batches: The number of messages of each batch, by partition.
        counts: The final counts.
    """

    faults: Sequence[dict[str, Any]]
    batches: Sequence[Sequence[int]]
    counts: dict[str, int]

    @property
    def bursts(self) -> list[range]:
        """The numbers of the messages of bursts, each of which starts with the running batch."""
        starts = [
            sum(map(sum, self.batches[: fault["batch"]]))
            for fault in self.faults
            if fault["fault"] == _BURST
        ]
        return [range(start, start + _MESSAGES_OF_BURST) for start in starts]

    def count_repeated(self, outage: str | None) -> int:
        """Count the batches that had begun when their driver died; see `name_faults`."""
        dying = _KILLS_OF_DRIVERS | ({_OUTAGE_OF_SINKS} if outage else set())
        return sum(fault["in_flight"] and fault["fault"] in dying for fault in self.faults)


def read_record(path: Path = RECORD) -> Record:
    """Read a record up to some batches after its last fault; later ones don't matter."""
    record = Record(**json.loads(path.read_text()))
    last = max(fault["batch"] for fault in record.faults)
    return replace(record, batches=record.batches[: last + _BATCHES_AFTER_FAULTS])


class ReplayedFaults(ChosenFaults):
    """The faults of a record. Nothing else fails, and batches end as in the record."""

    def choose(self, name: str, values: Sequence[T]) -> T:
        """Choose the recorded end of a batch, the most tasks, and any other value by its name."""
        if name.startswith("tasks of "):
            return values[-1]
        return values[0] if name.startswith("plan ") else super().choose(name, values)


def name_faults(record: Record, moment: str, outage: str | None) -> Collection[str]:
    """Name the simulator's events for the faults of a record.

    Args:
        record: The record.
        moment: The event of a batch at which a driver is killed, since records don't say when.
        outage: The event of a batch at which a database that is away ends the query; `None` where
            the batch waits until it is back, so that nothing fails.
    """
    return list(_name_events(record, moment, outage))


def _name_events(record: Record, moment: str, outage: str | None) -> Iterator[str]:
    life = 0
    for fault in record.faults:
        name, batch, in_flight = fault["fault"], fault["batch"], fault["in_flight"]
        dies_at = moment if name in _KILLS_OF_DRIVERS else None
        if name == _OUTAGE_OF_SINKS:
            dies_at = outage
        if dies_at is not None:
            yield f"life {life}, batch {batch} {dies_at if in_flight else 'begins'}"
            life += 1
        elif name == _OUTAGE_OF_SOURCES and in_flight:
            # The tasks that read from the broker fail and are retried.
            yield from (f"life {life}, batch {batch}, task {task} dies" for task in range(_TASKS))
        elif name in _KILLS_OF_WORKERS:
            yield f"life {life}, batch {batch}, an executor is lost"
            yield f"life {life}, batch {batch}, task 0 dies"
            dying = range(SHARDS) if name == "Python daemon killed" else [0]
            yield from (f"life {life}, batch {batch}, shard {shard} dies" for shard in dying)


def make_case(record: Record) -> Case:
    """Make a case whose steps are the batches of a record."""
    dice = random.Random(7)
    offsets: dict[int, int] = {}
    steps, now, read_messages = [], 0.0, 0
    for counts in record.batches:
        numbers = range(read_messages, read_messages := read_messages + sum(counts))
        in_bursts = sum(_count_common(numbers, burst) for burst in record.bursts)
        # The messages of a burst have the times of fewer messages.
        now += len(numbers) - in_bursts + in_bursts / BURST
        messages = []
        for partition, count in enumerate(counts):
            for _ in range(-(-count // _MESSAGES_PER_MESSAGE)):
                offset = offsets[partition] = offsets.get(partition, -1) + 1
                message = _draw_message(now, dice)
                messages.append({**message, "partition": partition, "offset": offset})
        dice.shuffle(messages)
        steps.append(Batch(messages, int(now * SECOND)))
    return Case("spark", Stream(_SPEC, steps), (SHARDS,), 7, 0.0)


def _count_common(first: range, second: range) -> int:
    return len(range(max(first.start, second.start), min(first.stop, second.stop)))


def _draw_message(now: float, dice: random.Random) -> dict[str, Any]:
    key, value = dice.choice(_KEYS), dice.randrange(1000)
    time: Any = int((now + dice.uniform(-120, 0)) * SECOND)
    fate = dice.random()
    if fate < 0.02:
        time = "soon"
    elif fate < 0.05:
        time -= 2 * DAY
    elif fate < 0.07:
        time += 36_500 * DAY
    return {"key": key, "time": time, "value": value}
