"""Pair each order with its payment up to ten minutes after it."""

import muntin as mt

pairs = mt.join(
    mt.windowed(orders, time="ordered"),
    mt.windowed(payments, time="paid"),
    on="id",
    within=(0, "10 minutes"),
)
answer = pairs.results.select("id", "value", "means")
