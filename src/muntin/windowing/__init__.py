"""The windowing application: a table of timestamped tuples, kept short while it grows.

Four things happen at once on one table: random tuples are inserted at a limited rate, what is too
old or too much is deleted, the greatest value is followed, and averages are taken over the last
seconds. Everything here runs without Spark, bucket by bucket; ``muntin.spark.windowing`` runs it.

Source: the VoltDB windowing example application.
"""

from muntin.windowing.bucket import Bucket, Figures
from muntin.windowing.options import Options
from muntin.windowing.packing import Packed, pack
from muntin.windowing.report import Maximum, Monitor, Report, Summary
from muntin.windowing.tuples import Stretch, made

__all__ = [
    "Bucket",
    "Figures",
    "Maximum",
    "Monitor",
    "Options",
    "Packed",
    "Report",
    "Stretch",
    "Summary",
    "made",
    "pack",
]
