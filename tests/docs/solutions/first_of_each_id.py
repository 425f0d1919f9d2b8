"""Keep the first order of each id in each hour."""

import muntin as mt

first = mt.windowed(orders, key="id", time="at").tumbling("1 hour").top(1, by="at", ascending=True)
answer = first.results.select("id", "at", "price")
