"""SQL for windows: read with sqlglot, lowered to the same values as the Python sentence.

Nothing here computes anything, and nothing here knows Spark. ``muntin.sql.door`` is what the rest
of the package calls.
"""
