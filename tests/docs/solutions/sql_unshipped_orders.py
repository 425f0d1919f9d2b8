"""List each order with its shipment of the next four hours, in SQL."""

import muntin as mt

statement = """
    SELECT o.id, s.shipped FROM orders o LEFT JOIN shipments s
    ON o.id = s.id AND s.shipped BETWEEN o.placed AND o.placed + INTERVAL '4' HOUR
"""
answer = mt.sql(statement, orders=orders, shipments=shipments).results
