"""Numbers of shards of a query, each of which is a partition of Spark's state."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import SparkSession

from muntin.model.errors import OptionError
from muntin.spark.host.internals.checkpoints import PARTITIONS, read_newest_offsets
from muntin.spark.host.internals.executors import await_cores
from muntin.spark.host.internals.jvm import is_connected, local_cores

# Serializes starts, since the number of shuffle partitions is a setting of the whole session.
_STARTING = threading.Lock()


def count_shards(spark: SparkSession, asked: int | None) -> int:
    """Return the number of shards of a query: the one asked for, else one for each core.

    The default is at most the number of shuffle partitions, and equals it where the number of cores
    isn't certain yet.
    """
    if asked is None:
        most, cores = int(spark.conf.get(PARTITIONS, "200") or 200), _cores(spark)
        return most if cores is None else min(most, cores)
    if asked < 1:
        raise OptionError("shards", asked, "is less than one", "give 1 or more")
    return asked


def _cores(spark: SparkSession) -> int | None:
    """Return the number of cores of a session; ``None`` where it isn't certain yet."""
    conf = spark.conf
    master = str(conf.get("spark.master", ""))
    if master.split("[")[0] == "local":
        connected = is_connected(spark)
        return local_cores(master) if connected else spark.sparkContext.defaultParallelism
    if str(conf.get("spark.dynamicAllocation.enabled", "false")).lower() == "true":
        return None
    if master.startswith(("spark://", "local-cluster")) and not is_connected(spark):
        return await_cores(spark)
    # Take the configured executors, which may not have started yet.
    executors = conf.get("spark.executor.instances", None)
    each = conf.get("spark.executor.cores", None)
    if executors and each:
        return max(1, int(executors) * int(each))
    return None


def read_stored_shards(spark: SparkSession, checkpoint: str) -> int | None:
    """Return the number of state partitions of a checkpoint; ``None`` where it isn't stored."""
    lines = read_newest_offsets(spark, checkpoint)
    try:
        stored = json.loads((lines or [])[1])["conf"][PARTITIONS]
        return int(stored)
    except (IndexError, KeyError, TypeError, ValueError):
        return None  # Spark reads the file next, and reports damage or another version's format.


def count_partitions(shards: Sequence[tuple[int, int | None]]) -> int:
    """Return the number of state partitions of a query, which all its operators share."""
    by_default = [count for count, asked in shards if asked is None]
    # An operator that asked for no number keeps this one when the query starts again.
    return by_default[0] if by_default else max(count for count, _ in shards)


@contextmanager
def use_partitions(spark: SparkSession, count: int) -> Iterator[None]:
    """Have queries that start in the context get a number of state partitions, unless resumed."""
    with _STARTING:
        before = spark.conf.get(PARTITIONS, "200")
        spark.conf.set(PARTITIONS, str(count))
        try:
            yield
        finally:
            spark.conf.set(PARTITIONS, str(before))


def slots(shards: int) -> tuple[int, ...]:
    """Return a grouping key for each shard, such that Spark's hash spreads them evenly.

    With as many partitions as shards, each partition gets exactly one key.
    """
    keys_by_shard: dict[int, int] = {}
    key = 0
    while len(keys_by_shard) < shards:
        keys_by_shard.setdefault(_spark_hash(key) % shards, key)
        key += 1
    return tuple(keys_by_shard[shard] for shard in range(shards))


def _spark_hash(value: int) -> int:
    """Compute Spark's Murmur3 of one int column (seed 42), as in its hash partitioning."""
    mask = 0xFFFFFFFF

    def rotate(x: int, by: int) -> int:
        return (x << by | x >> (32 - by)) & mask

    k = rotate(value * 0xCC9E2D51 & mask, 15) * 0x1B873593 & mask
    h = (rotate(42 ^ k, 13) * 5 + 0xE6546B64 & mask) ^ 4
    h = (h ^ h >> 16) * 0x85EBCA6B & mask
    h = (h ^ h >> 13) * 0xC2B2AE35 & mask
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
