"""`move`: carries a stopped query from one host to the other."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from muntin.dataframe.host import Host
from muntin.hosts.local import move as local
from muntin.hosts.local.log_contents import BlobKey
from muntin.hosts.local.state import is_local_checkpoint
from muntin.hosts.seed import FOLDER, Seed, write_seed
from muntin.model.errors import OptionError
from muntin.state.disk import sync_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def move(
    checkpoint: str | PathLike[str],
    target: str | PathLike[str],
    *,
    to: Host,
    spark: SparkSession | None = None,
) -> int:
    """Carry a stopped query to the other host: a new checkpoint from which it continues there.

    The query that starts from the new checkpoint on the other host must be the same one, written
    for that host: it is compared as at any start. It reads its sources from where the last batch
    ended, and continues the batch numbers under which sinks know what they have. A batch that was
    planned and not committed is repeated with the same messages. So no result is lost or repeated,
    as long as only one of the two checkpoints is started again.

    State, clocks, counts and the offsets of Kafka and of files are carried; `unwritable` rows stay
    in the old checkpoint, which is never changed. An interruption leaves no new checkpoint.

    Args:
        checkpoint: The folder of the stopped query.
        target: The folder of the new checkpoint; it must be empty, or not exist.
        to: The host to which the query moves. A move to Spark needs no Spark: the first start
            there writes the state.
        spark: The session for a move from Spark; by default the active one, or a new
            `muntin.session()`.

    Returns:
        The number of the last batch.

    Raises:
        OptionError: When the query runs, has no commit, reads a source or has state that the other
            host doesn't have, or the new folder isn't empty.
        StateCorruptedError: When the checkpoint is damaged.

    Example:
        >>> move("checkpoints/views", "checkpoints/views-spark", to="spark")  # doctest: +SKIP
        1207
    """
    source, folder = fspath(checkpoint), fspath(target)
    if to not in get_args(Host):
        raise OptionError("to", to, "isn't a host", "give 'spark' or 'local'")
    is_local = "://" not in source and is_local_checkpoint(source)
    if is_local == (to == "local"):
        host = "the local host" if is_local else "Spark"
        hint = "give the other host, or the folder that start(checkpoint=…) got"
        problem = "isn't a checkpoint of the other host"
        if is_local or "://" in source or Path(source).is_dir():
            problem = f"is a checkpoint of {host} already" if is_local else problem
        raise OptionError("to", to, f"doesn't fit: {source} {problem}", hint)
    path = _empty_folder(folder)
    if is_local:
        with local.read_local_query(source) as (seed, blobs):
            return _write(path, to, seed, blobs)
    from muntin.spark.session import active_session
    from muntin.spark.stopped_query import read_query

    with read_query(active_session(spark), source) as (seed, blobs):
        return _write(path, to, seed, blobs)


def _empty_folder(folder: str) -> Path:
    """Return the path of the new checkpoint, an empty folder of this machine."""
    path = Path(folder)
    if "://" in folder:
        hint = "give a folder of this machine, and copy it there before the first start"
        raise OptionError("TO", folder, "isn't on this machine", hint)
    if path.exists() and not (path.is_dir() and not any(path.iterdir())):
        raise OptionError("TO", folder, "isn't empty", "give a folder that doesn't exist yet")
    return path


def _write(path: Path, to: Host, seed: Seed, blobs: Iterable[tuple[BlobKey, bytes]]) -> int:
    """Write the new checkpoint beside its folder, and rename it when it is whole."""
    path = path.absolute()
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    beside.mkdir(parents=True)
    try:
        if to == "spark":
            write_seed(beside / FOLDER, seed, blobs)
        else:
            local.write_query(beside, seed, blobs)
        sync_path(beside)
        # This fails if anything has been written to the folder meanwhile.
        beside.rename(path)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    sync_path(path.parent)
    return seed.committed.number
