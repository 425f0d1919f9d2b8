"""Every five minutes, sum the sales of each shop over ten minutes."""

import muntin as mt

sums = (
    mt.windowed(sales, key="shop", time="at")
    .hopping("10 minutes", "5 minutes")
    .agg(total=mt.sum("price"))
)
answer = sums.results.select("shop", "window_start", "total")
