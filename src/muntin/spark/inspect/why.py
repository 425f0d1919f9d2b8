"""Why the windows of a key have emitted, or not, out of a checkpoint."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession

from muntin.engine import key_state
from muntin.explain.why import Clocks, about, of_sessions, of_windows
from muntin.model.axis import instant
from muntin.model.errors import OptionError
from muntin.model.sessions import Sessions
from muntin.spark.host.checkpoint import Checkpoint, windows_of
from muntin.spark.host.shards import slots


def why(spark: SparkSession, checkpoint: str, key: Sequence[str], at: str) -> list[str]:
    """Say why the windows of a key around a time have emitted, or haven't, or take nothing.

    Args:
        spark: The session.
        checkpoint: The folder of a query, as its last committed batch left it; it may be running.
        key: The key's values as text, in the order of its columns.
        at: A time, as ``2026-01-01 09:04:00``; in UTC where it names no zone.

    Raises:
        OptionError: When the checkpoint, the key or the time can't be what is asked for.
    """
    return reasons(Checkpoint(spark, checkpoint), key, at)


def reasons(opened: Checkpoint, key: Sequence[str], at: str) -> list[str]:
    """The same of a checkpoint that is open."""
    moment = instant("--at", at)
    spec = windows_of(opened)
    if spec.axis == "rows":
        hint = "look at the results: windows measured in rows have no watermark"
        raise OptionError("CHECKPOINT", str(spec.windows), "isn't measured in time", hint)
    asked = key_state.key_of(spec, key)
    slot = slots(spec.buckets or 1)[key_state.bucket_of(spec, asked)]
    manifest = opened.read.get(slot)
    if manifest is None:
        raise OptionError("--key", ", ".join(key), "has no shard yet", "wait for the first batch")
    clocks = Clocks(manifest.watermark, manifest.wall, opened.counts)
    numbers = key_state.wanted(spec, manifest.tables, moment, moment)
    blobs = opened.blobs({slot: [n for found in numbers.values() for n in found]})[slot]
    lines = [f"key        {', '.join(key)}", *about(spec, clocks)]
    if isinstance(spec.windows, Sessions):
        found = key_state.sessions_seen(spec, numbers, blobs, asked)
        return [*lines, *of_sessions(spec, clocks, found, moment)]
    seen = key_state.windows_seen(spec, numbers, blobs, asked, moment, moment)
    return [*lines, *of_windows(spec, clocks, seen, moment)]
