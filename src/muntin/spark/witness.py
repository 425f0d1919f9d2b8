"""A checkpoint looked at from outside, through Spark's reader of state stores."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.engine import witness
from muntin.explain.why import Clocks, about, of_sessions, of_windows
from muntin.model.axis import instant
from muntin.model.errors import OptionError, StateCorruptedError
from muntin.model.facts import read_back
from muntin.model.sessions import Sessions
from muntin.spark.combiner import slots
from muntin.spark.state import MANIFEST


def why(spark: SparkSession, checkpoint: str, key: Sequence[str], at: str) -> list[str]:
    """Say why the windows of a key around a time have spoken, or haven't, or take nothing.

    Args:
        spark: The session.
        checkpoint: The folder of a query, as its last committed batch left it; it may be running.
        key: The key's values as text, in the order of its columns.
        at: A time, as ``2026-01-01 09:04:00``; in UTC where it names no zone.

    Returns:
        Lines.

    Raises:
        OptionError: When the checkpoint, the key or the time can't be what is asked for.
    """
    moment = instant("--at", at)
    state = _state(spark, checkpoint)
    manifests = _manifests(state, checkpoint)
    facts = read_back(json.loads(next(iter(manifests.values()))["spec"]))
    if facts.axis == "rows":
        cure = "look at the results: windows measured in rows have no watermark"
        raise OptionError("CHECKPOINT", str(facts.windows), "isn't measured in time", cure)
    asked = witness.key_of(facts, key)
    slot = slots(facts.buckets)[witness.bucket_of(facts, asked)]
    manifest = manifests.get(slot)
    if manifest is None:
        raise OptionError("--key", ", ".join(key), "has no shard yet", "wait for the first batch")
    counts: Counter[str] = Counter()
    for one in manifests.values():
        counts.update(one["counts"])
    clocks = Clocks(manifest["watermark"], manifest["wall"], counts)
    numbers = witness.wanted(facts, manifest["tables"], moment)
    blobs = _blobs(state, slot, [number for found in numbers.values() for number in found])
    lines = [f"key        {', '.join(key)}", *about(facts, clocks)]
    if isinstance(facts.windows, Sessions):
        found = witness.sessions_seen(facts, numbers, blobs, asked)
        return [*lines, *of_sessions(facts, clocks, found, moment)]
    seen = witness.windows_seen(facts, numbers, blobs, asked, moment)
    return [*lines, *of_windows(facts, clocks, seen, moment)]


def _state(spark: SparkSession, checkpoint: str) -> DataFrame:
    """Slot, number and blob of everything in the state."""
    reader = spark.read.format("statestore").option("stateVarName", "blobs")
    path = str(PurePath(checkpoint)) if "://" not in checkpoint else checkpoint
    try:
        return reader.load(path).select(
            F.col("key.slot").alias("slot"),
            F.col("user_map_key.number").alias("number"),
            F.col("user_map_value.blob").alias("blob"),
        )
    except PySparkException as error:
        cure = "give the folder that start(checkpoint=…) got, after its first batch"
        said = str(error).strip().splitlines()[0][:120]
        raise OptionError("CHECKPOINT", checkpoint, f"holds no windows ({said})", cure) from error


def _manifests(state: DataFrame, checkpoint: str) -> dict[int, dict[str, Any]]:
    rows = state.where(F.col("number") == MANIFEST).collect()
    if not rows:
        cure = "wait until its first batch is done"
        raise OptionError("CHECKPOINT", checkpoint, "holds nothing yet", cure)
    return {row["slot"]: json.loads(bytes(row["blob"])) for row in rows}


def _blobs(state: DataFrame, slot: int, numbers: Sequence[int]) -> dict[int, bytes]:
    if not numbers:
        return {}
    asked = (F.col("slot") == slot) & F.col("number").isin(list(numbers))
    found = {row["number"]: bytes(row["blob"]) for row in state.where(asked).collect()}
    missing = set(numbers) - found.keys()
    if missing:
        raise StateCorruptedError(
            f"blob {min(missing)} of the manifest isn't in the state store: "
            "a batch was committed meanwhile; ask again"
        )
    return found
