"""Put the counts of shown and clicked ads of each ten minutes into one row."""

import muntin as mt

views = mt.windowed(shown, key="ad", time="at").tumbling("10 minutes").agg(shown=mt.count())
clicks = mt.windowed(clicked, key="ad", time="at").tumbling("10 minutes").agg(clicked=mt.count())
both = mt.join(views, clicks, on=["ad", "window_start", "window_end"], how="full")
answer = both.results.select("ad", "window_start", "shown", "clicked")
