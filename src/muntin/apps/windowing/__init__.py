"""The windowing application: a table of timestamped tuples that is pruned while it grows.

Four things happen at once on one table: random tuples are inserted at a limited rate, rows beyond
an age or a number are deleted, the greatest value is tracked, and averages are taken over the last
seconds. ``query`` and ``random_tuples`` run it on Spark; the rest doesn't need Spark.

Source: the VoltDB windowing example application.
"""

from muntin.apps.windowing.calls import Deletion as Deletion
from muntin.apps.windowing.calls import delete as delete
from muntin.apps.windowing.options import Options as Options
from muntin.apps.windowing.packing import pack as pack
from muntin.apps.windowing.report import Maximum as Maximum
from muntin.apps.windowing.report import Monitor as Monitor
from muntin.apps.windowing.report import Report as Report
from muntin.apps.windowing.report import Summary as Summary
from muntin.apps.windowing.table_shard import TableProgress as TableProgress
from muntin.apps.windowing.table_shard import TableShard as TableShard
from muntin.apps.windowing.tuples import TupleRange as TupleRange
from muntin.apps.windowing.tuples import generate_tuples as generate_tuples
