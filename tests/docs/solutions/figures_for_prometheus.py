"""Serve the figures of a query for Prometheus, and fetch them when all is read."""

from urllib.parse import urljoin
from urllib.request import urlopen

import muntin as mt

visits = mt.files("in/*.jsonl", columns="page string, at timestamp")
views = mt.windowed(visits, key="page", time="at").tumbling("1 minute").agg(n=mt.count())
query = views.start(checkpoint=None, available_now=True)
figures = mt.metrics(query, port=0)
query.await_end()
with urlopen(urljoin(figures.url, "/metrics")) as page:
    answer = page.read().decode()
figures.close()
