"""SQL for windows: read with sqlglot, lowered to the same values as Python queries.

Nothing here computes rows or imports Spark. A text that can't be run is refused by an ``SqlError``
at its span. The rest of the package calls ``muntin.sql.api``; the function ``muntin.sql`` is that
of ``muntin.spark.statements``.
"""
