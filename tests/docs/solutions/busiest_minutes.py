"""Count orders in each five minutes, and find the greatest count of each hour."""

import muntin as mt

counts = mt.windowed(orders, time="at").tumbling("5 minutes").agg(n=mt.count())
busiest = mt.windowed(counts, time="window_time").tumbling("1 hour").agg(most=mt.max("n"))
answer = busiest.results.select("window_start", "most")
