"""The window model: frozen specs of windows, policies and aggregates; the standard library only.

Nothing here computes on data and nothing here knows Polars, Arrow or Spark. Everything that
describes a query (and everything that a checkpoint must agree with when it is reopened) is
written in these words.
"""
