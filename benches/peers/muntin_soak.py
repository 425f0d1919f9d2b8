"""The query of the soak: ``python -m benches.peers.muntin_soak SECONDS``."""

from __future__ import annotations

import sys
import tempfile
import time

from pyspark.sql import functions as F

import muntin as mt
from benches.peers.muntin_settings import OWN
from benches.peers.spark_session import session

ROWS_A_SECOND = 20_000


def main(seconds: float) -> None:
    """Run it for so long."""
    spark = session(more=OWN)
    rate = spark.readStream.format("rate").option("rowsPerSecond", ROWS_A_SECOND).load()
    # A new set of keys every minute; one row in a hundred is 20 seconds late.
    late = F.when(F.col("value") % 100 == 37, F.expr("interval 20 seconds"))
    events = rate.select(
        (F.col("value") % 10_000 + F.minute("timestamp") * 10_000).alias("k"),
        (F.col("value") % 1000).alias("v"),
        F.coalesce(F.col("timestamp") - late, F.col("timestamp")).alias("ts"),
    )
    results = (
        mt.windowed(events, key="k", time="ts", lateness="1 second")
        .tumbling("10 seconds")
        .early(every="1 second")
        .late(grace="30 seconds", each=True)
        .agg(n=mt.count(), total=mt.sum("v"), most=mt.max("v"))
        .results
    )
    with tempfile.TemporaryDirectory() as folder:
        writer = results.writeStream.format("noop").option("checkpointLocation", folder)
        query = writer.trigger(processingTime="1 second").start()
        until = time.time() + seconds
        while time.time() < until and query.isActive:
            time.sleep(1)
        failed = query.exception()
        query.stop()
    spark.stop()
    if failed is not None:
        raise SystemExit(str(failed))


if __name__ == "__main__":
    main(float(sys.argv[1]))
