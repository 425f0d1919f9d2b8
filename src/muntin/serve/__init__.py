"""The live page: what running queries do, batch by batch, in a browser.

``Feed`` takes in what queries emit, ``application`` serves it (extra ``web``), ``Server`` runs that
beside the queries. Nothing here knows Spark.
"""

from muntin.serve.feed import Chart, Feed, Subject, Tile

__all__ = ["Chart", "Feed", "Subject", "Tile"]
