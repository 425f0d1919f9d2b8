"""Settings of muntin's own session, besides those of all Spark peers."""

from __future__ import annotations

from muntin.spark.session import FORMAT, LOCAL, SETTINGS, WORKERS

OWN = {**WORKERS, **LOCAL, FORMAT: SETTINGS[FORMAT]}
