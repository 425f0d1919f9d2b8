"""Reads the series that Prometheus scrapes from a query."""

from __future__ import annotations

from muntin.hosts.inspect.metrics import Metrics
from muntin.query import Query


def read_series(query: Query) -> dict[tuple[str, ...], float]:
    """Return the values of a query's series, by name and labels other than the query's name."""
    samples = (sample for family in Metrics((query,)).collect() for sample in family.samples)
    return {
        (sample.name, *(value for name, value in sample.labels.items() if name != "query")): (
            sample.value
        )
        for sample in samples
    }
