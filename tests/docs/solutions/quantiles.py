"""Compute the median and the 90th percentile of the requests of each minute."""

import muntin as mt

times = (
    mt.windowed(requests, time="at")
    .tumbling("1 minute")
    .agg(middle=mt.median("ms"), p90=mt.exact_quantile("ms", 0.9))
)
answer = times.results.select("middle", "p90")
