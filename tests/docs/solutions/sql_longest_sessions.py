"""Count readings in sessions that are bounded in length, in SQL."""

import muntin as mt

statement = """
    SELECT room, count(*) AS n FROM readings
    GROUP BY room, SESSION(at, INTERVAL '10' MINUTES, LONGEST => 10 MINUTES)
"""
answer = mt.sql(statement, readings=readings).results
