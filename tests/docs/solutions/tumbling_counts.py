"""Count the views of each page in each ten minutes."""

import muntin as mt

counts = mt.windowed(views, key="page", time="at").tumbling("10 minutes").agg(n=mt.count())
answer = counts.results.select("page", "window_start", "n")
