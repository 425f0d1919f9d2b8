"""Find the stretches in which a machine keeps its state."""

import muntin as mt

stretches = (
    mt.windowed(readings, key="machine", time="at")
    .session("1 hour", same="state")
    .agg(state=mt.first("state"), n=mt.count())
)
answer = stretches.results.select("machine", "window_start", "state", "n")
