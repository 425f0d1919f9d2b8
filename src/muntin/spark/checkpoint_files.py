"""The driver's own files in a checkpoint: the lease, and a record of the last batch.

Spark's state contains the query and its progress, but reading them takes Spark jobs. The record
has both in one file, which is read before anything runs. Its progress counts only if it agrees with
Spark's log of commits.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from muntin.hosts.leases import FILE, Lease, LocalLeaseFile, acquire_lease
from muntin.hosts.local.state import is_local_checkpoint
from muntin.hosts.progress import Progress
from muntin.model.errors import MuntinError, SpecChangedError
from muntin.model.facts import STORED_SHARDS
from muntin.spark.host.checkpoint import Checkpoint
from muntin.spark.host.internals.checkpoints import find_newest_batch, refuse_missing_files
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import JvmError, find_java_message
from muntin.spark.query_end import describe_changed_chain
from muntin.state.disk import replace_text

_LOG = logging.getLogger(__name__)
RECORD = "record.json"


class CheckedSpec(Protocol):
    """A query that compares itself with the one stored in a checkpoint."""

    def to_dict(self) -> dict[str, Any]:
        """Return all facts that the state depends on, as plain JSON."""

    def check_same(self, stored: Mapping[str, Any]) -> None:
        """Refuse to resume from the state of another query."""


class HadoopLeaseFile:
    """The file of a lease in one of Hadoop's file systems."""

    def __init__(self, folder: HadoopPath) -> None:
        self._path = folder / FILE

    def read(self) -> str | None:
        return self._path.read() if self._path.exists() else None

    def create(self, text: str) -> bool:
        if self._path.exists():
            return False
        try:
            self._path.write(text, replaces=False)
        except JvmError:
            if self._path.exists():
                return False
            raise
        return True

    def replace(self, text: str) -> None:
        try:
            self._path.write(text)
        except JvmError as error:
            raise OSError(find_java_message(error)) from error

    def discard(self, text: str) -> None:
        if self.read() == text:
            self._path.delete()


def acquire(spark: SparkSession, checkpoint: str) -> Lease:
    """Acquire the lease on a checkpoint, on a disk or in an object store."""
    folder = HadoopPath(spark, checkpoint)
    local = folder.local
    if local is not None:
        if is_local_checkpoint(str(local)):
            raise SpecChangedError(
                f"{checkpoint} is a checkpoint of a query without Spark. Give the query on Spark "
                "another folder"
            )
        return acquire_lease(LocalLeaseFile(local), checkpoint)
    # Reading the file from an object store in each batch would take as long as a commit.
    return acquire_lease(HadoopLeaseFile(folder), checkpoint, checks_file=False)


class ProgressRecord:
    """The record of a query's last batch, in its checkpoint.

    Args:
        spark: A session with a JVM of its own.
        specs: The query; for a chain, the queries of all operators as Spark numbers them.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str, specs: Sequence[CheckedSpec] = ()
    ) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._file = HadoopPath(spark, checkpoint) / RECORD
        self._local = self._file.local
        self._specs = specs

    def resume(self) -> Progress:
        """Compare the query with the checkpoint's, and return the checkpoint's figures.

        Raises:
            SpecChangedError: When the checkpoint was written by another spec.
            StateCorruptedError: When a part of the checkpoint is gone.
        """
        stored = self._read()
        committed = find_newest_batch(self._spark, self._checkpoint)
        recorded = _find_recorded_batch(stored)
        refuse_missing_files(self._spark, self._checkpoint, committed, recorded)
        if committed is None:
            return Progress()
        specs = stored.get("specs", [])
        if specs and len(specs) != len(self._specs):
            raise describe_changed_chain(len(specs), len(self._specs))
        for spec, written in zip(self._specs, specs or self._specs_in_state(), strict=False):
            # Ignore the number of shards, since the start has rescaled the state where necessary.
            spec.check_same({**written, STORED_SHARDS: spec.to_dict().get(STORED_SHARDS)})
        return self.progress_of(committed, stored)

    def progress_of(self, batch: int, stored: Mapping[str, Any] | None = None) -> Progress:
        """Return the figures after the last batch, of its ``stored`` record or of the state."""
        stored = self._read() if stored is None else stored
        with suppress(KeyError, TypeError, ValueError):
            progress = Progress.from_dict(stored["progress"])
            if progress.batch == batch:
                return _without_run(progress)
        return self._progress_in_state() or Progress()

    def write(self, progress: Progress) -> None:
        """Write the figures of a batch; if that fails, the next start reads the state."""
        text = json.dumps(
            {"specs": [spec.to_dict() for spec in self._specs], "progress": progress.to_dict()}
        )
        try:
            if self._local is None:
                self._file.write(text)
            else:
                replace_text(self._local, text)
        except Exception:
            _LOG.debug("The record of batch %d can't be written", progress.batch, exc_info=True)

    def _read(self) -> dict[str, Any]:
        with suppress(OSError, ValueError, RecursionError, JvmError):
            text = self._file.read() if self._local is None else self._local.read_text()
            stored = json.loads(text)
            if isinstance(stored, dict):
                return stored
        return {}

    def _specs_in_state(self) -> list[dict[str, Any]]:
        """Read the specs from the state; none if it can't be read, which the query reports."""
        specs: list[dict[str, Any]] = []
        with suppress(MuntinError, PySparkException):
            for number in range(len(self._specs)):
                opened = Checkpoint(self._spark, self._checkpoint, operator=number)
                specs.append(opened.any_manifest.spec)
        return specs

    def _progress_in_state(self) -> Progress | None:
        """Read the figures of the last operator from the state."""
        with suppress(MuntinError, PySparkException):
            opened = Checkpoint(self._spark, self._checkpoint)
            manifests = list(opened.manifest_by_shard.values())
            watermarks = [m.watermark for m in manifests if m.watermark is not None]
            rows = sum(run.rows for m in manifests for run in m.runs())
            newest = max(watermarks, default=None)
            return Progress(opened.batch, newest, opened.counts, state_rows=rows)
        return None


def _find_recorded_batch(stored: Mapping[str, Any]) -> int:
    """Return the batch of a record; -1 without one."""
    progress = stored.get("progress")
    batch = progress.get("batch") if isinstance(progress, dict) else None
    return batch if isinstance(batch, int) else -1


def _without_run(progress: Progress) -> Progress:
    """Return the figures without those that count from the start of a run."""
    before = {name: _without_run(one) for name, one in progress.upstreams.items()}
    return replace(progress, fired={}, unwritable=0, **before)  # type: ignore[arg-type]
