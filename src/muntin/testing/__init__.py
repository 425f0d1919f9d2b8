"""What tests of pipelines stand on: an oracle that says, slowly and obviously, what windows hold.

It keeps each window's messages in a list and needs nothing but the standard library, so a test can
compare what a pipeline gave with what its sentence means. ``check_sink`` holds a sink of one's own
against what muntin's promise.

Example:
    >>> from muntin import count
    >>> from muntin.standalone import windowed
    >>> spec = windowed(key="page", time="at").tumbling("10 us").agg(n=count())
    >>> oracle = Oracle(spec)
    >>> step = oracle.step([{"page": "home", "at": 3}, {"page": "home", "at": 12}], wall=12)
    >>> [(row["page"], row["window_start"], row["n"]) for row in step.firings]
    [('home', 0, 1)]
"""

from muntin.testing.oracle import Oracle, OracleStep
from muntin.testing.sinks import SinkBatch, check_sink

__all__ = ["Oracle", "OracleStep", "SinkBatch", "check_sink"]
