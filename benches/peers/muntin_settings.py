"""What muntin's own session would set, beside what all Spark peers have."""

from __future__ import annotations

from muntin.spark.session import FORMAT, LOCAL, SETTINGS, WORKERS

OWN = {**WORKERS, **LOCAL, FORMAT: SETTINGS[FORMAT]}
