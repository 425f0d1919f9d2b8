import muntin as mt

five = mt.windowed(bids, time="at").tumbling("5 minutes").agg(n=mt.count())
answer = mt.windowed(five, time="window_time").tumbling("1 hour").agg(most=mt.max("n")).results
