"""Count the views of each minute, correct them for ten minutes, and reject what comes later."""

import muntin as mt

visits = mt.files("in/*.jsonl", columns="page string, at timestamp", files_per_batch=1)
views = (
    mt.windowed(visits, time="at")
    .tumbling("1 minute")
    .late(grace="10 minutes", each=True)
    .agg(n=mt.count())
)
results, dead = mt.to_memory(history=True), mt.to_memory()
query = views.start(checkpoint=None, results=results, rejected=dead, available_now=True)
query.await_end()
answer = results.history().select("window_start", "n", "emission", "revision")
rejected = dead.frame().select("at", "reason")
