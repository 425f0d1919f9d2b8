"""Group the clicks of each user into visits that end after 30 minutes without a click."""

import muntin as mt

sessions = (
    mt.windowed(clicks, key="user", time="at")
    .session("30 minutes")
    .agg(clicks=mt.count(), pages=mt.collect_list("page"))
)
answer = sessions.results.select("user", "window_start", "clicks", "pages")
