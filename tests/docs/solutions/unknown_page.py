"""Count the visits of each page in each ten minutes; no page is a group of its own."""

import muntin as mt

counts = (
    mt.windowed(visits, key="page", time="at", nulls="group")
    .tumbling("10 minutes")
    .agg(n=mt.count())
)
answer = counts.results.select("page", "window_start", "n")
