"""Count the clicks of each visit by Spark's session_window, without Spark."""

import muntin as mt

statement = """
    SELECT user, count(*) AS n FROM clicks
    GROUP BY user, session_window(at, '30 minutes')
"""
answer = mt.sql(statement, clicks=clicks).results.select("user", "window_start", "n")
