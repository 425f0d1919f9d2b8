"""Count the messages that no window took, by the reason."""

import muntin as mt

visits = mt.files("in/*.jsonl", columns="page string, at timestamp")
views = mt.windowed(visits, key="page", time="at").tumbling("1 minute").agg(n=mt.count())
rejected = mt.to_memory()
query = views.start(checkpoint=None, results=mt.to_memory(), rejected=rejected, available_now=True)
query.await_end()
answer = dict(rejected.frame().group_by("reason").len().rows())
