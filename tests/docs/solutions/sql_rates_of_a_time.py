"""Value each order by the rate of its time, in SQL."""

import muntin as mt

statement = """
    SELECT o.id, o.amount * r.rate AS worth
    FROM orders AS o WATERMARK placed DELAY OF INTERVAL '0' SECOND
    LEFT JOIN rates WATERMARK since DELAY OF INTERVAL '0' SECOND FOR SYSTEM_TIME AS OF o.placed AS r
    ON o.currency = r.currency
"""
answer = mt.sql(statement, orders=orders, rates=rates).results
