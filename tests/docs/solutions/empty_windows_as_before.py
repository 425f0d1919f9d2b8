"""Show the mean of each room in each ten minutes, and repeat it where there are no readings."""

import muntin as mt

means = (
    mt.windowed(readings, key="room", time="at")
    .tumbling("10 minutes")
    .fill("previous", up_to="1 hour")
    .agg(mean=mt.mean("value"))
)
answer = means.results.select("room", "window_start", "mean")
