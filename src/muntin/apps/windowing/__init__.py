"""The windowing application: a table of timestamped tuples, kept short while it grows.

Four things happen at once on one table: random tuples are inserted at a limited rate, what is too
old or too much is deleted, the greatest value is followed, and averages are taken over the last
seconds. ``query`` and ``random_tuples`` run it on Spark; all else needs none, bucket by bucket.

Source: the VoltDB windowing example application.
"""

from muntin.apps.windowing.bucket import Bucket, TableProgress
from muntin.apps.windowing.options import Options
from muntin.apps.windowing.packing import Packed, pack
from muntin.apps.windowing.report import Maximum, Monitor, Report, Summary
from muntin.apps.windowing.tuples import TupleRange, made

__all__ = [
    "Bucket",
    "Maximum",
    "Monitor",
    "Options",
    "Packed",
    "Report",
    "Summary",
    "TableProgress",
    "TupleRange",
    "made",
    "pack",
]
