"""For each payment, count its card's payments in the ten minutes up to it."""

import muntin as mt

recent = mt.windowed(payments, key="card", time="at").rolling("10 minutes").agg(n=mt.count())
answer = recent.results.select("card", "amount", "at", "n")
