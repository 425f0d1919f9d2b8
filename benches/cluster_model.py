"""A model of a cluster with many cores, from measured parts: ``benches.cluster_model``.

    .venv/bin/python -m benches.cluster_model [--cores 2,16,64,250,1000,4000]

The parts are lines through the points of ``benches/results/scaling.json``: the driver's time for a
batch and for each of its tasks, and a core's time for each reading task, each shard, each transfer
from a task to a shard, and each message. All parts run at once on their own cores, except those of
the driver, which run one after the other. It prints a table as Markdown.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benches.curves import fit_line, series
from benches.scaling import RESULTS

# The cost of a message of JSON in Kafka, parsed and combined, in core microseconds (case K1).
MESSAGE_MICROS = 2 / 637_000 * 1e6


@dataclass(frozen=True)
class Parts:
    """The measured parts of a batch's cost, in milliseconds of one core.

    Attributes:
        driver: Cost of a batch for the driver.
        task: Cost of each task for the driver.
        read: Cost of each task that reads.
        shard: Cost of each shard.
        pair: Cost of each transfer from a task to a shard.
    """

    driver: float
    task: float
    read: float
    shard: float
    pair: float

    @classmethod
    def of(cls, curves: Mapping[str, Any]) -> Parts:
        """Fit the parts to the measured points."""
        counts, costs = series(curves["tasks"], "driver")
        # Each point has as many shards as reading tasks.
        driver, task = fit_line([2 * n for n in counts], costs)
        read = fit_line(*series(curves["files"], "cpu"))[1] - task
        shard = fit_line(*series(curves["shards"], "cpu"))[1] - task
        n, whole = (np.asarray(values) for values in series(curves["tasks"], "cpu"))
        own = whole - np.asarray(costs)
        terms = np.stack([1 / own, n / own, n * n / own], axis=1)
        pair = float(np.linalg.lstsq(terms, np.ones(len(own)), rcond=None)[0][2])
        return cls(driver, task, read, shard, max(0.0, pair))

    def batch(self, cores: int) -> tuple[float, float]:
        """Return the least cost of a batch: of the driver, and of each core besides its messages.

        Example:
            >>> parts = Parts(driver=100, task=2, read=9, shard=70, pair=0.01)
            >>> parts.batch(1000)
            (4100, 89.0)
        """
        return self.driver + 2 * cores * self.task, self.read + self.shard + cores * self.pair

    def rate(self, cores: int, seconds: float) -> float:
        """Return the messages a second in batches of some length; 0 if they are too short."""
        left = 1000 * seconds - sum(self.batch(cores))
        return max(0.0, left * 1000 / MESSAGE_MICROS * cores / seconds)


def main() -> None:
    """Print the parts, and a table by cores."""
    parser = argparse.ArgumentParser(prog="benches.cluster_model", description=__doc__)
    parser.add_argument("--cores", default="2,16,64,250,1000,4000")
    cores = [int(number) for number in parser.parse_args().cores.split(",")]
    parts = Parts.of(json.loads(RESULTS.read_text()))
    print(parts)
    print("| cores | driver, s | each core, s | messages/s, batches of 1 s | of 10 s | of 60 s |")
    print("| --- " * 6 + "|")
    for count in cores:
        driver, own = parts.batch(count)
        rates = (f"{parts.rate(count, seconds) / 1e6:,.1f} M" for seconds in (1, 10, 60))
        print(f"| {count:,} | {driver / 1000:.2f} | {own / 1000:.2f} | {' | '.join(rates)} |")


if __name__ == "__main__":
    main()
