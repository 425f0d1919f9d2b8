"""Columnar window operators over Polars frames and a store; no Spark here, and no clock of its own.

A batch goes: ``prepare`` (before the shuffle: messages to one row per key and pane) → ``run`` (one
shard: keeps ``Runs`` in a store, decides with ``firing`` what emits, composes windows of panes).
``windows``, ``sessions`` and ``joins`` are the operators, ``aggregates`` what they compute;
``muntin.testing.oracle`` says the same slowly.
"""
