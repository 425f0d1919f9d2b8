"""Columnar window operators over Polars frames and a store, without Spark and without a clock.

A batch passes through two steps. ``prepare`` runs before the shuffle and reduces messages to one
row per key and pane. ``run`` runs in one shard: it keeps ``Runs`` in a store, decides with
``firing`` which windows emit, and composes windows of panes. ``windows``, ``sessions`` and
``joins`` are the operators, and ``aggregates`` computes their values. ``muntin.testing.oracle`` is
a slow reference implementation.
"""
