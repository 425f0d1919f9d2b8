import muntin as mt

answer = mt.sql(
    """
    SELECT seller, avg(CASE WHEN price > 3 THEN 1.0D ELSE 0.0D END) AS share
    FROM bids GROUP BY seller, TUMBLE(at, INTERVAL 10 MINUTES)
    """,
    bids=bids,
).results
