"""Count the views of each page in each complete minute, out of files that are read once."""

import muntin as mt

visits = mt.files("in/*.jsonl", columns="page string, at timestamp")
views = mt.windowed(visits, key="page", time="at").tumbling("1 minute").agg(n=mt.count())
query = views.start(checkpoint="checkpoint", available_now=True)
query.await_end()
answer = query.frame().select("page", "window_start", "n")
