"""For each payment, sum and count what its card paid in the ten minutes before it."""

import muntin as mt

before = (
    mt.windowed(payments, key="card", time="at")
    .rolling("10 minutes", closed="left")
    .agg(spent_before=mt.sum("amount"), n_before=mt.count())
)
answer = before.results.select("card", "amount", "spent_before", "n_before")
