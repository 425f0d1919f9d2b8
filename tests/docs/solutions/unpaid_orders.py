"""Find the orders that weren't paid within the ten minutes after them."""

import muntin as mt

unpaid = mt.join(
    mt.windowed(orders, time="ordered"),
    mt.windowed(payments, time="paid"),
    on="id",
    within=(0, "10 minutes"),
    how="anti",
)
answer = unpaid.results.select("id", "value")
