"""Find the two dearest orders of each shelf in each hour."""

import muntin as mt

dearest = mt.windowed(orders, key="shelf", time="at").tumbling("1 hour").top(2, by="price")
answer = dearest.results.select("window_start", "shelf", "rank", "buyer", "price")
