import muntin as mt

weeks = mt.windowed(bids, key="seller", time="at").tumbling("1 week", origin="2026-01-05")
answer = weeks.agg(n=mt.count()).results
