"""Count the views of each hour, and show an hour after every batch that changes it."""

import muntin as mt

visits = mt.files("in/*.jsonl", columns="page string, at timestamp", files_per_batch=1)
views = mt.windowed(visits, time="at").tumbling("1 hour").early(each=True).agg(n=mt.count())
results = mt.to_memory(history=True)
query = views.start(checkpoint=None, results=results, available_now=True)
query.await_end()
answer = results.history().select("window_start", "n")
