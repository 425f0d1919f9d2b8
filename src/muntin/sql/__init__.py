"""SQL for windows: read with sqlglot, lowered to the same values as the Python sentence.

Nothing here computes anything, and nothing here knows Spark. What can't be run is refused by an
``SqlError`` at its place. ``muntin.sql.door`` is what the rest of the package calls; the function
``muntin.sql`` is that of ``muntin.spark.statements``.
"""
