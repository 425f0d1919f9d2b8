import muntin as mt

answer = mt.sql(
    """
    SELECT array_join(collect_list(item), '-') AS items
    FROM bids GROUP BY TUMBLE(at, INTERVAL 10 MINUTES)
    """,
    bids=bids,
).results
