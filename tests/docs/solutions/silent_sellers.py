import muntin as mt

visits = mt.windowed(bids, key="seller", time="at").session("3 minutes")
answer = visits.agg(first=mt.min("at"), last=mt.max("at"), n=mt.count()).results
