"""Move a stopped query to Spark."""

import muntin as mt

readings = mt.files("readings.jsonl", columns="room string, at timestamp")
counted = mt.windowed(readings, key="room", time="at").tumbling("10 minutes").agg(n=mt.count())
query = counted.start(
    checkpoint="here", results=mt.to_duckdb("counted.duckdb", "counted"), available_now=True
)
query.await_end()
answer = mt.move("here", "on-spark", to="spark")
