"""Compute the mean and the number of readings of each room in each ten minutes, in SQL."""

import muntin as mt

statement = """
    SELECT room, window_start, avg(value) AS mean, count(*) AS n
    FROM TABLE(TUMBLE(TABLE readings, DESCRIPTOR(at), INTERVAL '10' MINUTES))
    WHERE value IS NOT NULL
    GROUP BY room, window_start, window_end
"""
answer = mt.sql(statement, readings=readings).results.select("room", "window_start", "mean", "n")
