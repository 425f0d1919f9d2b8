"""A whole query in one frozen value, and how two of them differ.

The spec is what a checkpoint remembers. It says everything that state depends on and nothing
that it doesn't (sinks, triggers).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from muntin.model.aggregates import Aggregate
from muntin.model.axis import phrase
from muntin.model.errors import OptionError, SpecChangedError
from muntin.model.policies import Firing
from muntin.model.windows import Windows

REASONS = ("late", "future", "null_key", "null_time", "malformed", "overflow")


@dataclass(frozen=True)
class WindowSpec:
    """One windowed aggregation.

    Attributes:
        keys: The key columns, in order.
        time: The event-time column.
        windows: Which windows.
        aggregates: What they compute, by output name, in order.
        firing: When they speak.
        lateness: How far the watermark trails the greatest event time, microseconds.
        max_ahead: How far ahead of the wall clock a message may be; ``None`` is any.
        types: The Arrow type of every column that the aggregates and keys read, in words.
        buckets: How many shards the keys are kept in, if that is known.
    """

    keys: tuple[str, ...]
    time: str
    windows: Windows
    aggregates: Mapping[str, Aggregate]
    firing: Firing = Firing()
    lateness: int = 0
    max_ahead: int | None = None
    types: Mapping[str, str] = field(default_factory=dict)
    buckets: int | None = None

    def __post_init__(self) -> None:
        firing = self.firing
        if firing.retention < firing.grace:
            cure = f"keep at least {phrase(firing.grace)}"
            raise OptionError(
                "keep", phrase(firing.retention), f"is below the grace {phrase(firing.grace)}", cure
            )
        own = {"window_start", "window_end", "emission", "revision"}
        for position, key in enumerate(self.keys):
            if key in own or key in self.keys[:position]:
                raise OptionError("key", key, "is a column of the output already", "rename it")
        for name in self.aggregates:
            if name in own or name in self.keys:
                raise OptionError("agg", name, "is a column of the output already", "rename it")

    def facts(self) -> dict[str, str]:
        """What state depends on, each fact by name and in words."""
        windows, firing = self.windows, self.firing
        facts = {
            "key": ", ".join(self.keys),
            "time": self.time,
            "windows": f"{windows}, origin {windows.origin} us",
            "early": str(firing.early) if firing.early else "never",
            "late": str(firing.late),
            "grace": phrase(firing.grace),
            "keep": phrase(firing.retention),
            "accumulate": str(firing.accumulate),
            "lateness": phrase(self.lateness),
        }
        if self.buckets is not None:
            facts["buckets"] = str(self.buckets)
        facts |= {f"agg {name}": str(agg) for name, agg in self.aggregates.items()}
        return facts | {f"type of {name}": kind for name, kind in sorted(self.types.items())}

    def dumps(self) -> str:
        """The facts as JSON, for the checkpoint."""
        return json.dumps(self.facts())

    def check_same(self, stored: str) -> None:
        """Refuse to go on from state that another spec wrote.

        Args:
            stored: What ``dumps`` gave when the state was written.

        Raises:
            SpecChangedError: Naming each fact that differs, then and now.
        """
        then, now = json.loads(stored), self.facts()
        if then == now:
            return
        lines = [
            f"{name}: was {then.get(name, 'absent')}, is {now.get(name, 'absent')}"
            for name in sorted(then.keys() | now.keys())
            if then.get(name) != now.get(name)
        ]
        raise SpecChangedError(
            "the checkpoint was written by another spec ("
            + "; ".join(lines)
            + "); go back to it, or start with a new checkpoint folder"
        )
