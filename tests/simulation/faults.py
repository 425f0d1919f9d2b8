"""Faults of a simulated run: drawn from a seed by name, so that any of them can be muted.

Whether something fails depends on the seed and on the name of the event alone, and not on what
happened before. A run that fails is made small by muting one fault after the other.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Collection, Sequence
from typing import TypeVar

T = TypeVar("T")


class KilledError(BaseException):
    """The process is killed: no code of its own runs any more."""


class PowerLostError(KilledError):
    """The machine is off: what wasn't on the disk may be lost."""


class FailedError(Exception):
    """A sink or a source fails."""


class Faults:
    """Decides what fails.

    Args:
        seed: The seed of all decisions.
        rate: The probability that an event fails.
        muted: The names of events that don't fail.
    """

    def __init__(self, seed: int, rate: float, muted: Collection[str] = ()) -> None:
        self.seed = seed
        self.rate = rate
        self.muted = frozenset(muted)
        self.failed_events: list[str] = []
        self._checksum = zlib.crc32(f"{seed} ".encode(), 0x5EED)

    def number(self, name: str) -> float:
        """Return a number from 0 to 1 that depends only on the seed and the name."""
        return zlib.crc32(name.encode(), self._checksum) / (1 << 32)

    def dice(self, name: str) -> random.Random:
        """Return a random generator for an event."""
        return random.Random(f"{self.seed} {name}")

    def choose(self, name: str, values: Sequence[T]) -> T:
        """Choose one of several values."""
        return values[int(self.number(f"choice of {name}") * len(values))]

    def strikes(self, name: str, weight: float = 1.0) -> bool:
        """Return whether an event fails, and record it in `failed_events` if it does."""
        if name in self.muted or self.number(name) >= self.rate * weight:
            return False
        self.failed_events.append(name)
        return True


class ChosenFaults(Faults):
    """Faults that are chosen by name.

    Args:
        names: The events that fail.
        seed: The seed of all other choices, such as the end of a batch.
    """

    def __init__(self, names: Collection[str], seed: int = 0) -> None:
        super().__init__(seed, 0.0)
        self.names = frozenset(names)
        self.events: list[str] = []

    def strikes(self, name: str, weight: float = 1.0) -> bool:
        """Return whether an event fails, and record it in `events`."""
        self.events.append(name)
        if name in self.names:
            self.failed_events.append(name)
        return name in self.names
