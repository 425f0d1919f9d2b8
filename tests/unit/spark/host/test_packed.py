"""Tests that processes which only plan import neither Polars nor Arrow nor the engine."""

from __future__ import annotations

import subprocess
import sys

from pyspark.serializers import CloudPickleSerializer

from muntin.spark.host.packed import PackedTask, ShardProcessor
from muntin.spark.host.processor import ShardSteps

_UNPICKLE = """
import pickle, sys
value = pickle.loads(sys.stdin.buffer.read())
print(type(value).__name__, sorted({"muntin.engine", "polars", "pyarrow"} & sys.modules.keys()))
"""


def unpickle_elsewhere(value: object) -> str:
    """Unpickle a value in a new process, and return its type and the imported libraries."""
    blob = CloudPickleSerializer().dumps(value)
    done = subprocess.run([sys.executable, "-c", _UNPICKLE], input=blob, capture_output=True)
    return done.stdout.decode() + done.stderr.decode()


def test_a_packed_task_imports_nothing_until_it_is_called() -> None:
    import polars as pl

    task = PackedTask(lambda batches: iter([pl.Series([len(list(batches))])]))
    assert unpickle_elsewhere(task) == "PackedTask []\n"
    assert [series.to_list() for series in task(iter(["one", "two"]))] == [[2]]  # type: ignore[list-item]


def test_a_processor_imports_nothing_until_a_shard_has_rows() -> None:
    steps = ShardSteps.__new__(ShardSteps)
    assert "ShardProcessor []" in unpickle_elsewhere(ShardProcessor(steps))
