"""Hand messages one by one to an operator that finds the greatest price of each ten seconds."""

import muntin as mt
from muntin.standalone import WindowedAggregator, windowed

spec = windowed(key="shop", time="at").tumbling("10 seconds").agg(best=mt.max("price"))
op = WindowedAggregator(spec)
for message in messages:
    op.add_message(
        key=message["shop"],
        value={"price": message["price"]},
        time=int(message["second"] * 1_000_000),  # microseconds
    )
answer = op.get_result().select("shop", "window_start", "best", "emission")
late = op.rejected.height
