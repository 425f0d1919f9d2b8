"""Runs a query from end to end: session, worker, Arrow and state store."""

from __future__ import annotations

import muntin as mt


def run_test_query() -> str:
    """Start a session, take three messages through one window, and stop it."""
    spark = mt.session("muntin doctor", master="local[1]")
    try:
        rows = [("a", 1_000_000 * second) for second in (1, 2, 3)]
        frame = spark.createDataFrame(rows, "key string, micros long")
        frame = frame.selectExpr("key", "timestamp_micros(micros) AS at")
        counted = mt.windowed(frame, key="key", time="at").tumbling("1 minute").agg(n=mt.count())
        counts = [row["n"] for row in counted.results.collect()]
        if counts != [3]:
            raise RuntimeError(f"a window of three messages counted {counts}")
        return f"{spark.version}: a session, a Python worker and a window in its state store"
    finally:
        spark.stop()
