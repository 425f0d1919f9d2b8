"""Processes that only plan import neither Polars nor Arrow nor the engine."""

from __future__ import annotations

import subprocess
import sys

from pyspark.serializers import CloudPickleSerializer

from muntin.spark.host.packed import PackedTask, ShardProcessor
from muntin.spark.host.processor import ShardSteps

_OPENED = """
import pickle, sys
made = pickle.loads(sys.stdin.buffer.read())
print(type(made).__name__, sorted({"muntin.engine", "polars", "pyarrow"} & sys.modules.keys()))
"""


def opened(thing: object) -> str:
    """What a new process says of something that it has unpickled."""
    blob = CloudPickleSerializer().dumps(thing)
    done = subprocess.run([sys.executable, "-c", _OPENED], input=blob, capture_output=True)
    return done.stdout.decode() + done.stderr.decode()


def test_a_packed_task_imports_nothing_until_it_is_called() -> None:
    import polars as pl

    task = PackedTask(lambda batches: iter([pl.Series([len(list(batches))])]))
    assert opened(task) == "PackedTask []\n"
    assert [series.to_list() for series in task(iter(["one", "two"]))] == [[2]]  # type: ignore[list-item]


def test_a_processor_imports_nothing_until_a_shard_has_rows() -> None:
    steps = ShardSteps.__new__(ShardSteps)
    assert "ShardProcessor []" in opened(ShardProcessor(steps))
