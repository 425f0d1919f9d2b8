"""Show each order with the sum of its shelf's prices in the three minutes up to it, in SQL."""

import muntin as mt

statement = """
    SELECT buyer, shelf, price, sum(price) OVER
        (PARTITION BY shelf ORDER BY at RANGE INTERVAL '3' MINUTE PRECEDING) AS spent
    FROM orders
"""
answer = mt.sql(statement, orders=orders).results.select("buyer", "shelf", "price", "spent")
