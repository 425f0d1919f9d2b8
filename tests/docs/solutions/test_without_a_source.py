"""Test a query over messages of the test, batch by batch, without its source."""

import muntin as mt
from muntin import testing

visits = mt.files("in/*.jsonl", columns="page string, at timestamp")
views = mt.windowed(visits, time="at", lateness="10 seconds").tumbling("1 minute").agg(n=mt.count())
ran = testing.run(
    views,
    [
        [
            {"page": "home", "at": "2026-01-01T09:00:05Z"},
            {"page": "home", "at": "2026-01-01T09:00:20Z"},
        ],
        [{"page": "home", "at": "2026-01-01T09:01:30Z"}],
        [{"page": "home", "at": "2026-01-01T09:00:50Z"}],
        [{"page": "home", "at": "2026-01-01T09:02:30Z"}],
    ],
)
answer = ran.emissions.select("n", "emission")
reasons = ran.rejected["reason"].to_list()
