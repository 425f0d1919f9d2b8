"""Runs a query over finite inputs in one batch."""

from __future__ import annotations

import time
from collections.abc import Iterator

import polars as pl

from muntin.hosts.local.plan import LocalPlan
from muntin.hosts.local.run import BatchOutput, OperatorRun
from muntin.sources.source import Source
from muntin.state.blobs import Blobs, MemoryBlobs


def run_once(plan: LocalPlan) -> BatchOutput:
    """Read all sources of a plan to their ends, and emit each window in full."""
    run = OperatorRun(plan, lambda operator, shard: _store())
    read = (_read(source) for source in plan.sources)
    return run.step(read, time.time_ns() // 1000, None, final=True)


def _store() -> Blobs:
    return MemoryBlobs()


def _read(source: Source) -> Iterator[pl.DataFrame]:
    reader = source.open()
    try:
        yield from reader.read(None, reader.plan(None, None).end)
    finally:
        reader.close()
