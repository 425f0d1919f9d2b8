"""Show each trade with the rate of its currency that held at its time."""

import muntin as mt

valued = mt.join(
    mt.windowed(trades, time="at"),
    mt.windowed(rates, time="since"),
    on="currency",
    as_of=True,
    how="left",
)
answer = valued.results.select("currency", "amount", "rate")
