"""The checkpoint of a query on the local host: state, source offsets and figures in one log.

Before a batch runs, its plan is written: the end offset of each source, and the clock. So a batch
that is repeated after a crash has the same rows. When the sinks have its rows, its blobs and one
commit record are written: the manifests of all shards, the offsets and the figures. A commit counts
only if its record is complete.

An old file of the log is deleted when no blob in it is in use. Where less than half of a file is in
use, its live blobs are copied first.
"""

from __future__ import annotations

import json
import secrets
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from muntin.hosts.leases import (
    CHECKPOINT_REPLACED,
    WRITABLE_HINT,
    LocalLeaseFile,
    acquire_lease,
    report_write_failures,
)
from muntin.hosts.local.log import BLOB, COMMIT, PLAN, Location, Log
from muntin.hosts.local.log_contents import (
    NUMBER_BYTES,
    BlobKey,
    Commit,
    LogContents,
    PlannedBatch,
    ShardKey,
    format_begin,
    format_blob,
    format_commit,
)
from muntin.hosts.seed import is_spark_checkpoint
from muntin.model.errors import LeaseLostError, OptionError, SpecChangedError
from muntin.model.option_types import check_local
from muntin.state.blobs import Blobs, MemoryBlobs, missing_blob_error

FILE_BYTES = 64 << 20
"""Size of a log file at which the next one begins, bytes."""
# The least share of a log file in use; below it, live blobs are copied and the file is deleted.
_MIN_USED_SHARE = 0.5


class LocalCheckpoint(Protocol):
    """The storage of a query's progress and state.

    Attributes:
        identity: A text that distinguishes the query from those with another checkpoint.
        last_commit: The last commit.
        planned: The batch that was planned and not committed, if there is one.
    """

    identity: str
    last_commit: Commit
    planned: PlannedBatch | None

    def open_store(self, operator: int, shard: int) -> Blobs:
        """Open the store of a shard; its changes are committed with the batch."""

    def plan(self, batch: PlannedBatch, *, ahead: bool = False) -> None:
        """Write a batch's plan before it runs.

        Args:
            batch: The batch.
            ahead: Whether to sync the plan to disk while the batch is computed; worthwhile where a
                sink is likely to get rows of it.
        """

    def sync_plan(self) -> None:
        """Sync the plan to disk, before a sink gets rows of the batch."""

    def commit(self, progress: dict[str, Any], shards: Sequence[int]) -> None:
        """Commit the batch that was planned.

        Raises:
            LeaseLostError: When another query has taken over the checkpoint.
        """

    def close(self) -> None:
        """Release the checkpoint."""


class MemoryCheckpoint:
    """A checkpoint in memory, which is lost when the process ends."""

    def __init__(self) -> None:
        self.identity = secrets.token_hex(8)
        self.last_commit = Commit()
        self.planned: PlannedBatch | None = None
        self._stores: dict[ShardKey, MemoryBlobs] = {}

    def open_store(self, operator: int, shard: int) -> Blobs:
        return self._stores.setdefault((operator, shard), MemoryBlobs())

    def plan(self, batch: PlannedBatch, *, ahead: bool = False) -> None:
        """Keep a batch's plan until it is committed."""
        self.planned = batch

    def sync_plan(self) -> None:
        """Do nothing, since there is no disk."""

    def commit(self, progress: dict[str, Any], shards: Sequence[int]) -> None:
        assert self.planned is not None
        batch, self.planned = self.planned, None
        self.last_commit = Commit(batch.number, batch.ends, batch.final, progress, tuple(shards))

    def close(self) -> None:
        """Do nothing, since no resource is held."""


class LogBlobs:
    """The store of a shard in a log; implements `muntin.state.blobs.Blobs`."""

    def __init__(self, checkpoint: LogCheckpoint, shard: ShardKey, manifest: str | None) -> None:
        self._checkpoint = checkpoint
        self._shard = shard
        self.manifest = manifest

    def load(self) -> str | None:
        """Return the manifest of this batch if it saved one, else that of the last commit."""
        return self.manifest

    def save(self, manifest: str) -> None:
        self.manifest = manifest

    def get(self, number: int) -> bytes:
        return self._checkpoint.read_blob((*self._shard, number))

    def put(self, number: int, blob: bytes) -> None:
        self._checkpoint.pending_blobs[(*self._shard, number)] = blob

    def remove(self, number: int) -> None:
        key = (*self._shard, number)
        if self._checkpoint.pending_blobs.pop(key, None) is None:
            self._checkpoint.removed_blobs.append(key)


class LogCheckpoint:
    """A checkpoint in a folder, which one query at a time may open.

    Args:
        folder: The folder; it is created if it doesn't exist.
        sync_every: The longest time between syncs of commits to disk, seconds; 0 syncs each commit,
            and `None` leaves it to the operating system.
        file_bytes: The size of a log file at which the next one begins, bytes.

    Raises:
        OptionError: When another query has it open, or it can't be written.
        StateCorruptedError: When it is damaged.
        SpecChangedError: When the folder is a checkpoint of a query on Spark.
    """

    def __init__(
        self, folder: str, sync_every: float | None = 0.0, file_bytes: int = FILE_BYTES
    ) -> None:
        check_local("checkpoint", folder)
        # The process may change its folder later.
        self.folder = Path(folder).absolute()
        if is_spark_checkpoint(self.folder):
            raise SpecChangedError(
                f"{folder} is a checkpoint of a query on Spark: give the local query a folder of "
                "its own, or move it with muntin move"
            )
        with self._report_failures(WRITABLE_HINT):
            self.folder.mkdir(parents=True, exist_ok=True)
        self._lease = acquire_lease(LocalLeaseFile(self.folder), folder)
        self.identity = ""
        self.last_commit = Commit()
        self.planned: PlannedBatch | None = None
        self.pending_blobs: dict[BlobKey, bytes] = {}
        self.removed_blobs: list[BlobKey] = []
        self._locations: dict[BlobKey, Location] = {}
        self._used_bytes: dict[int, int] = {}
        self._stores: dict[ShardKey, LogBlobs] = {}
        self._file_bytes = file_bytes
        self._sync_every = sync_every
        self._last_sync = 0.0
        self._log = Log(self.folder, sync_every is not None)
        self._is_open = False
        self._syncer: ThreadPoolExecutor | None = None
        self._syncing: Future[None] | None = None
        try:
            with self._report_failures():
                self._open()
            self._is_open = True
        except BaseException:
            self.close()
            raise

    def open_store(self, operator: int, shard: int) -> Blobs:
        key = (operator, shard)
        if key not in self._stores:
            manifest = self.last_commit.manifests.get(key)
            self._stores[key] = LogBlobs(self, key, manifest)
        return self._stores[key]

    def read_blob(self, key: BlobKey) -> bytes:
        """Return a blob from the log, or one that waits for the commit.

        Raises:
            StateCorruptedError: When there is none, or it is damaged.
        """
        if (waiting := self.pending_blobs.get(key)) is not None:
            return waiting
        location = self._locations.get(key)
        if location is None:
            raise missing_blob_error(key[2])
        return self._log.read(location)[NUMBER_BYTES:]

    def plan(self, batch: PlannedBatch, *, ahead: bool = False) -> None:
        with self._report_failures():
            self._check_ownership()
            self.planned = batch
            self._log.append(PLAN, json.dumps(vars(batch)).encode())
            self._log.flush(disk=False)
        if ahead and self._sync_every == 0:
            if self._syncer is None:
                self._syncer = ThreadPoolExecutor(1, thread_name_prefix="muntin-sync")
            self._syncing = self._syncer.submit(self._log.flush, disk=True)

    def _check_ownership(self) -> None:
        """Refuse to write to files that are gone, or to which another query writes now.

        It may have taken over the checkpoint while this process stood still.
        """
        self._lease.check()
        if not self._log.is_in_folder():
            raise LeaseLostError(CHECKPOINT_REPLACED)

    def sync_plan(self) -> None:
        with self._report_failures():
            if self._syncing is not None:
                self._await_sync()
            elif self._sync_every == 0:
                self._log.flush(disk=True)

    @contextmanager
    def _report_failures(self, hint: str | None = None) -> Iterator[None]:
        """Raise an error that names the checkpoint if it can't be written in the context."""
        try:
            with report_write_failures(str(self.folder), hint):
                yield
        except OptionError:
            # Nothing may follow a record that may be incomplete.
            self._is_open = False
            raise

    def _await_sync(self) -> None:
        """Wait for the running sync, if there is one."""
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    def commit(self, progress: dict[str, Any], shards: Sequence[int]) -> None:
        """Commit the batch that was planned.

        Raises:
            LeaseLostError: When another query has taken over the checkpoint, or its files were
                deleted or replaced.
            OptionError: When it can't be written.
        """
        assert self.planned is not None
        with self._report_failures():
            self._check_ownership()
            self._commit(progress, shards, self.planned)

    def _commit(self, progress: dict[str, Any], shards: Sequence[int], batch: PlannedBatch) -> None:
        self._await_sync()
        for key, blob in self.pending_blobs.items():
            self._write_blob(key, blob)
        for key in self.removed_blobs:
            self._forget_blob(key)
        self.pending_blobs, self.removed_blobs = {}, []
        manifests = {p: s.manifest for p, s in self._stores.items() if s.manifest is not None}
        self.last_commit = Commit(
            batch.number, batch.ends, batch.final, progress, tuple(shards), manifests
        )
        self.planned = None
        self._write_commit()
        if self._log.position > self._file_bytes:
            self._begin_next_file()

    def replace_operator(
        self, operator: int, manifests: Sequence[str], blobs: Mapping[tuple[int, int], bytes]
    ) -> None:
        """Replace the shards of an operator in one commit, while no store is open.

        Args:
            operator: Its number.
            manifests: The manifest of each of the new shards.
            blobs: The blobs of the new shards, by shard and number.
        """
        commit = self.last_commit
        for key in [key for key in self._locations if key[0] == operator]:
            self._forget_blob(key)
        for (shard, number), blob in blobs.items():
            self._write_blob((operator, shard, number), blob)
        others = {
            shard_key: text
            for shard_key, text in commit.manifests.items()
            if shard_key[0] != operator
        }
        new_manifests = {(operator, shard): text for shard, text in enumerate(manifests)}
        shards = tuple(
            len(manifests) if number == operator else count
            for number, count in enumerate(commit.shards)
        )
        self.last_commit = replace(commit, shards=shards, manifests={**others, **new_manifests})
        self._write_commit()
        self._log.flush(disk=True)

    def replace_manifests(
        self, manifests: Mapping[ShardKey, str], progress: dict[str, Any]
    ) -> None:
        """Replace the manifests of all shards, over the same blobs, in one commit.

        Args:
            manifests: The manifests.
            progress: The figures of the query.
        """
        self.last_commit = replace(self.last_commit, manifests=dict(manifests), progress=progress)
        self._write_commit()
        self._log.flush(disk=True)

    def close(self) -> None:
        if self._syncer is not None:
            self._syncer.shutdown()
        try:
            if self._is_open:
                with self._report_failures():
                    self._check_ownership()
                    self._log.end()
        finally:
            self._log.close()
            self._lease.release()

    def _write_blob(self, key: BlobKey, blob: bytes) -> None:
        location = self._log.append(BLOB, format_blob(key, blob))
        self._locations[key] = location
        self._used_bytes[location.file] = self._used_bytes.get(location.file, 0) + location.length

    def _forget_blob(self, key: BlobKey) -> None:
        location = self._locations.pop(key, None)
        if location is not None:
            self._used_bytes[location.file] -= location.length

    def _write_commit(self) -> None:
        body = format_commit(self.last_commit, self.planned)
        self._log.append(COMMIT, json.dumps(body).encode())
        now, every = time.monotonic(), self._sync_every
        due = every is not None and now - self._last_sync >= every
        self._log.flush(disk=due)
        if due:
            self._last_sync = now

    def _begin_next_file(self) -> None:
        """Begin the next file, copy live blobs of sparse files into it, and delete those files."""
        full = self._log.current
        self._log.begin(full + 1, format_begin(self.identity))
        files = [file for file in self._log.list_files() if file <= full]
        sparse = {
            file
            for file in files
            if self._used_bytes.get(file, 0)
            < _MIN_USED_SHARE * self._log.get_path(file).stat().st_size
        }
        for key, location in list(self._locations.items()):
            if location.file in sparse:
                blob = self._log.read(location)[NUMBER_BYTES:]
                self._forget_blob(key)
                self._write_blob(key, blob)
        # The newest commit must come after the blobs that it names, whichever files remain.
        self._write_commit()
        self._log.flush(disk=True)
        self._log.remove(sorted(sparse))
        for file in sparse:
            self._used_bytes.pop(file, None)

    def _open(self) -> None:
        contents = LogContents(self._log)
        if contents.file is None:
            # A UUID, since Spark accepts nothing else if the query moves there.
            self.identity = str(uuid.uuid4())
            self._log.begin(1, format_begin(self.identity))
            return
        self.identity = contents.identity
        self.last_commit, self.planned = contents.last_commit, contents.planned
        self._locations = contents.locate_live_blobs()
        for location in self._locations.values():
            self._used_bytes[location.file] = (
                self._used_bytes.get(location.file, 0) + location.length
            )
        self._log.resume(contents.file, contents.end)
