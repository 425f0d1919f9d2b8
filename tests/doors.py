"""The doors that a windowed aggregation can be run through, all under one protocol.

The transcripts and the property tests speak to a door and to nothing behind it. Every door gets
the same steps and gives back what each of them made the windows say.

To add a door: write a class with the attributes and the method of ``Door`` at the end of this
file and add it to ``DOORS``. The tests look for these names and go without them while they are
missing:

- ``EngineDoor(buckets=1, restart=False)``: the columnar engine. ``buckets`` is how many buckets
  the keys are spread over; ``restart`` throws the operator away after every step and goes on
  from what it stored.
- ``SparkDoor()``: the engine inside a Spark query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from muntin.engine.oracle import Oracle, Step
from muntin.model.spec import WindowSpec


@dataclass(frozen=True)
class Batch:
    """The input of one step.

    Attributes:
        messages: The columns of each message; times are microseconds, None, or unreadable text.
        wall: The wall clock, microseconds.
        final: Whether the input ends here.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    wall: int = 0
    final: bool = False


class Door(Protocol):
    """One way to run a windowed aggregation.

    Attributes:
        name: How the tests call it.
        tells_watermark: Whether ``Step.watermark`` is filled in.
    """

    name: str
    tells_watermark: bool

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[Step]:
        """Run a query from nothing through all of the steps; one answer for each.

        ``spec.types`` says what the columns hold: ``string``, ``long``, ``double`` or ``boolean``.
        """
        ...


@dataclass(frozen=True)
class OracleDoor:
    """The slow oracle."""

    name: str = "oracle"
    tells_watermark: bool = True

    def run(self, spec: WindowSpec, steps: Sequence[Batch]) -> list[Step]:
        """Run the oracle."""
        oracle = Oracle(spec)
        return [oracle.step(step.messages, step.wall, step.final) for step in steps]


# Further doors go here.


DOORS: list[Door] = [OracleDoor()]
"""Every door that the transcripts are run through."""
