"""Measures the time of the parts of batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")
# The parts of a batch before it is delivered; `name_sink_phase` names those of sinks.
PLAN, READ, STEP, COMMIT = "plan", "read", "step", "commit"


def name_sink_phase(kind: str) -> str:
    """Return the name of the part in which the sink of a kind of rows is written to."""
    return f"sink {kind}"


class Phases:
    """Adds up the time of the parts of batches. Parts may be nested: no time counts twice.

    Attributes:
        batch: The time of the parts of the batch in progress, or of the last one, seconds.
    """

    def __init__(self) -> None:
        self.batch: dict[str, float] = {}
        self._before: Counter[str] = Counter()
        # The time of nested parts, by the depth of the part around them.
        self._nested = [0.0]

    @property
    def total(self) -> dict[str, float]:
        """The time of the parts of all batches, seconds."""
        return dict(Counter(self.batch) + self._before)

    def begin_batch(self) -> None:
        """Begin the next batch."""
        self._before.update(self.batch)
        self.batch = {}

    def measure(self, phase: str) -> Measurement:
        """Add the time of the context to a part, without that of contexts within it."""
        return Measurement(self, self._nested, phase)

    def measure_each(self, phase: str, items: Iterable[_T]) -> Iterator[_T]:
        """Yield items, and add the time that each takes to a part."""
        iterator = iter(items)
        while True:
            with self.measure(phase):
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item


class Measurement:
    """A context whose time is measured; a class, since a batch has more of them than rows."""

    __slots__ = ("_begun", "_nested", "_phase", "_phases")

    def __init__(self, phases: Phases, nested: list[float], phase: str) -> None:
        self._phases = phases
        self._nested = nested
        self._phase = phase
        self._begun = 0.0

    def __enter__(self) -> None:
        self._begun = time.perf_counter()
        self._nested.append(0.0)

    def __exit__(self, *_: object) -> None:
        whole = time.perf_counter() - self._begun
        own = whole - self._nested.pop()
        self._nested[-1] += whole
        batch = self._phases.batch
        batch[self._phase] = batch.get(self._phase, 0.0) + own
