"""Group the hits of each bot into visits of at most 18 minutes, with gaps of at most ten."""

import muntin as mt

visits = (
    mt.windowed(hits, key="bot", time="at")
    .session("10 minutes", longest="18 minutes")
    .agg(n=mt.count())
)
answer = visits.results.select("window_start", "n")
