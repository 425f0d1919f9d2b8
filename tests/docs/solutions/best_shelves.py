"""Find the two shelves with the greatest income in each hour."""

import muntin as mt

by_shelf = (
    mt.windowed(orders, key="shelf", time="at").tumbling("1 hour").agg(income=mt.sum("price"))
)
best = by_shelf.top(2, by="income")
answer = best.results.select("window_start", "rank", "shelf", "income")
