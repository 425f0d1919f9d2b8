"""Count the events of each visit, which ends with a close or after an hour of silence."""

import muntin as mt

visits = (
    mt.windowed(events, key="user", time="at")
    .session("1 hour", end="kind = 'close'")
    .agg(n=mt.count())
)
answer = visits.results.select("user", "window_start", "n")
