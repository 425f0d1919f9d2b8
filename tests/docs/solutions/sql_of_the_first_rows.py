"""Find the two dearest orders of each shelf in each hour by ROW_NUMBER, in SQL."""

import muntin as mt

statement = """
    SELECT * FROM (
        SELECT *, ROW_NUMBER() OVER (
            PARTITION BY window_start, window_end, shelf ORDER BY price DESC) AS place
        FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(at), INTERVAL '1' HOUR))
    ) WHERE place <= 2
"""
rows = mt.sql(statement, orders=orders).results.rename({"place": "rank"})
answer = rows.select("window_start", "shelf", "rank", "buyer", "price")
