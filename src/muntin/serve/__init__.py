"""The live page: shows running queries in a browser, batch by batch.

``Feed`` collects what queries emit, ``application`` serves it (extra ``web``), and ``Server`` runs
the application beside the queries. Nothing here depends on Spark.
"""

from muntin.serve.feed import Chart, Feed, Subject, Tile

__all__ = ["Chart", "Feed", "Subject", "Tile"]
