"""Multiply the factors of each fund in each minute, by an aggregate of our own."""

import operator

import muntin as mt

product = mt.aggregate(
    "factor", initializer=lambda: 1.0, aggregator=operator.mul, merger=operator.mul
)
products = mt.windowed(growth, key="fund", time="at").tumbling("1 minute").agg(product=product)
answer = products.results.select("fund", "window_start", "product")
