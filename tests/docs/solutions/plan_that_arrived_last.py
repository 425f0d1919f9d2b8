"""Show each click with the plan of its user that arrived last."""

import muntin as mt

looked_up = mt.join(
    mt.windowed(clicks, time="at"),
    mt.windowed(plans, time="changed"),
    on="user",
    newest=True,
    how="left",
)
answer = looked_up.results.select("user", "plan")
