"""Records a run of the chaos suite: its batches, and the faults during them.

The simulator replays such a record (``tests/simulation/test_recorded.py``). The variable
``MUNTIN_CHAOS_RECORD`` is its path.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.spark.drivers import batches


@dataclass
class Recorder:
    """Records each fault with the batch during which it happened.

    Attributes:
        checkpoint: The checkpoint of the query under test.
        faults: The name of each fault, the first batch that wasn't committed then, and whether that
            batch had begun.
    """

    checkpoint: Path
    faults: list[dict[str, Any]] = field(default_factory=list)

    def strike(self, name: str, fault: Callable[[], None]) -> None:
        """Cause a fault, and record the batch during which it happened."""
        fault()
        begun_batches, ended_batches = (
            batches(self.checkpoint, "offsets"),
            batches(self.checkpoint, "commits"),
        )
        self.faults.append(
            {"fault": name, "batch": ended_batches, "in_flight": begun_batches > ended_batches}
        )

    def write(self, path: Path, counts: Mapping[str, int]) -> None:
        """Write the record: faults, messages of each batch by partition, and the final counts."""
        record = {
            "faults": self.faults,
            "batches": _count_messages(self.checkpoint),
            "counts": dict(counts),
        }
        lines = [f" {json.dumps(name)}: {json.dumps(part)}" for name, part in record.items()]
        path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _count_messages(checkpoint: Path) -> list[list[int]]:
    """Return the number of messages of each batch in Spark's log of offsets, by partition."""
    ends: list[int] = []
    counts = []
    for batch in range(batches(checkpoint, "commits")):
        line = (checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1]
        by_partition = [end for topic in json.loads(line)["ends"].values() for end in topic.items()]
        begin, ends = ends or [0] * len(by_partition), [end for _, end in sorted(by_partition)]
        counts.append([end - start for end, start in zip(ends, begin, strict=True)])
    return counts
