"""Settings of muntin's own session, besides those of all Spark peers."""

from __future__ import annotations

from muntin.spark.session import CHECKPOINT_FORMAT, LOCAL, SESSION_SETTINGS, WORKERS

OWN = {**WORKERS, **LOCAL, CHECKPOINT_FORMAT: SESSION_SETTINGS[CHECKPOINT_FORMAT]}
