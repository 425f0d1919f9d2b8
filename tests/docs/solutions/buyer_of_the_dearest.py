"""For each hour, show who paid the greatest price, and the three greatest prices."""

import muntin as mt

hours = (
    mt.windowed(orders, time="at")
    .tumbling("1 hour")
    .agg(buyer=mt.arg_max("buyer", "price"), prices=mt.top_k("price", 3))
)
answer = hours.results.select("window_start", "buyer", "prices")
