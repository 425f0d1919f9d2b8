"""Simulated crashes of queries at each write, flush and sink call, within the test's process."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from muntin.hosts.local import log
from muntin.hosts.local.checkpoint import LogCheckpoint
from muntin.hosts.local.delivery import Delivery, make_destinations
from muntin.hosts.local.loop import Loop, Pace
from muntin.hosts.local.plan import LocalPlan
from muntin.hosts.local.query import resume_plan
from muntin.hosts.local.run import OperatorRun
from muntin.sinks.batch import Batch


class CrashError(BaseException):
    """Stands for the death of the process."""


@dataclass
class Table:
    """An external table, which a crash doesn't change.

    Attributes:
        faults: Called before and after a batch is written.
        batches: The rows of each batch.
    """

    faults: Callable[[], None] = lambda: None
    batches: dict[int, pl.DataFrame] = field(default_factory=dict)

    def write(self, batch: Batch) -> None:
        self.faults()
        stored_rows = self.batches.get(batch.number)
        rows = batch.frame
        assert stored_rows is None or stored_rows.equals(rows), (
            f"batch {batch.number} has other rows"
        )
        self.batches[batch.number] = rows
        self.faults()

    @property
    def rows(self) -> pl.DataFrame:
        return pl.concat([self.batches[number] for number in sorted(self.batches)])


class Faults:
    """Kills at the n-th write, flush or sink call.

    Args:
        at: Number of the call that kills; `None` never kills.
    """

    def __init__(self, at: int | None) -> None:
        self.at = at
        self.count = 0
        self.synced = 0

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise CrashError

    def write(self, descriptor: int, data: bytes) -> None:
        try:
            self()
        except CrashError:
            _WRITE(descriptor, data[: len(data) // 2])
            raise
        _WRITE(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self()
        self.synced = os.fstat(descriptor).st_size


_WRITE = log.write


@contextmanager
def inject_faults(faults: Faults, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(log, "write", faults.write)
        patch.setattr(log, "sync", faults.sync)
        yield


def run(
    plan: LocalPlan, folder: Path, sinks: tuple[Table, Table], rows: int, **options: Any
) -> Loop:
    """Run a query to its end."""
    destinations = make_destinations(plan, sinks)
    checkpoint = LogCheckpoint(str(folder), **options)
    loop = None
    try:
        sized_plan = resume_plan(plan, checkpoint)
        readers = [source.open() for source in sized_plan.sources]
        operators = OperatorRun(sized_plan, checkpoint.open_store)
        delivery = Delivery(destinations, checkpoint.identity, str(folder))

        def clock() -> int:
            # The same for each batch, whichever process plans it.
            return 1_700_000_000_000_000 + 3_000_000 * checkpoint.last_commit.number

        loop = Loop(
            sized_plan,
            operators,
            readers,
            checkpoint,
            delivery,
            Pace(rows=rows),
            clock,
            elapsed=clock,
        )
        for _ in loop.run_batches():
            pass
        checkpoint.close()
    except CrashError:
        # A killed process doesn't flush.
        checkpoint._log.close()
        checkpoint._lease.release()
        raise
    return loop


def cut_power(folder: Path, faults: Faults, dice: random.Random) -> None:
    """Cut off a random part of the newest file that wasn't flushed."""
    newest = max(folder.glob("*.log"))
    size, synced = newest.stat().st_size, faults.synced
    if size > synced:
        with open(newest, "r+b") as file:
            file.truncate(dice.randint(synced, size))
