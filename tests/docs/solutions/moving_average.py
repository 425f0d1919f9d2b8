"""Compute the mean of each reading and the one before it of its room."""

import muntin as mt

rolling = mt.windowed(readings, key="room", time="at").rolling(mt.rows(2))
answer = rolling.agg(mean=mt.mean("degrees")).results
