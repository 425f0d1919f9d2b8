"""Measures the time of the parts of batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
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

    @contextmanager
    def measure(self, phase: str) -> Iterator[None]:
        """Add the time of the context to a part, without that of contexts within it."""
        begun = time.perf_counter()
        self._nested.append(0.0)
        try:
            yield
        finally:
            whole = time.perf_counter() - begun
            own = whole - self._nested.pop()
            self._nested[-1] += whole
            self.batch[phase] = self.batch.get(phase, 0.0) + own

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
