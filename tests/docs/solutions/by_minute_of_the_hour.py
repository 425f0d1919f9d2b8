import muntin as mt

answer = mt.sql(
    """
    SELECT minute(at) < 10 AS early, count(*) AS n
    FROM bids GROUP BY minute(at) < 10, TUMBLE(at, INTERVAL 1 HOUR)
    """,
    bids=bids,
).results
