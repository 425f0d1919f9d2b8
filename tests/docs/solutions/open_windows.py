"""Look into a checkpoint: which minutes are open, and how many views do they have?"""

import muntin as mt

visits = mt.files("in/*.jsonl", columns="page string, at timestamp")
views = mt.windowed(visits, key="page", time="at").tumbling("1 minute").agg(n=mt.count())
query = views.start(checkpoint="checkpoint", available_now=True)
query.await_end()
state = mt.open_state("checkpoint")
answer = state.frame().select("page", "window_start", "n")
