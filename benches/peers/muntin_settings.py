"""What muntin's own session would set, beside what all Spark peers have."""

from __future__ import annotations

from muntin.spark.session import FORMAT, SETTINGS, WORKERS

OWN = {**WORKERS, FORMAT: SETTINGS[FORMAT]}
