"""Show every order, with its payment if one is at most ten minutes away."""

import muntin as mt

pairs = mt.join(
    mt.windowed(orders, time="ordered"),
    mt.windowed(payments, time="paid"),
    on="id",
    within="10 minutes",
    how="left",
    nulls="unmatched",
)
answer = pairs.results.select("id", "value", "means")
