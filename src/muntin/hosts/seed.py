"""The seed of a query that moves to Spark: its state and progress in a folder of two files.

Only Spark can write the files of its state store. So a query that leaves the local host is stored
as a seed below its new checkpoint, from which its first start on Spark writes the state. The seed
is deleted once that state counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from muntin.hosts.local.log_contents import (
    BlobKey,
    Commit,
    PlannedBatch,
    format_commit,
    parse_commit,
)
from muntin.model.errors import StateCorruptedError
from muntin.state.disk import sync_path

FOLDER = "seed"
"""The name of the folder below the checkpoint."""
FACTS, BLOBS = "seed.json", "blobs.parquet"
"""The files of a seed: everything but the blobs, and the blobs."""
SEED_FORMAT = 1
SEED_COLUMNS = pa.schema(
    [
        ("operator", pa.int32()),
        ("shard", pa.int32()),
        ("number", pa.int64()),
        ("blob", pa.binary()),
    ]
)
# Size of a row group of blobs, bytes: Spark decodes a whole one at once.
_GROUP_BYTES = 32 << 20
# Only a checkpoint of Spark has one of these folders: Spark's offsets, a seed, or rescaled state.
_SPARK_FOLDERS = ("offsets", FOLDER, "moved")


@dataclass(frozen=True)
class Seed:
    """The identity and progress of a query that moves, without the blobs of its state.

    Attributes:
        identity: The text by which sinks tell the query from others.
        committed: The newest committed batch.
        planned: A batch that began after the committed one, and that sinks may have.
    """

    identity: str
    committed: Commit
    planned: PlannedBatch | None


def is_spark_checkpoint(folder: Path) -> bool:
    """Return whether a folder of this machine is a checkpoint of a query on Spark."""
    return any((folder / name).is_dir() for name in _SPARK_FOLDERS)


def write_seed(folder: Path, seed: Seed, blobs: Iterable[tuple[BlobKey, bytes]]) -> None:
    """Write a seed to a new folder; the file of facts comes last and makes it complete."""
    folder.mkdir(parents=True)
    with pq.ParquetWriter(folder / BLOBS, SEED_COLUMNS) as writer:
        for group in _group_blobs(blobs):
            writer.write_batch(group)
    commit = format_commit(seed.committed, seed.planned)
    facts = {"format": SEED_FORMAT, "identity": seed.identity, "commit": commit}
    (folder / FACTS).write_text(json.dumps(facts))
    for path in (folder / BLOBS, folder / FACTS, folder):
        sync_path(path)


def parse_seed(text: str, folder: str) -> Seed:
    """Parse the file of facts of a checkpoint's seed."""
    try:
        facts = json.loads(text)
        version = facts["format"]
        if version == SEED_FORMAT:
            committed, planned = parse_commit(facts["commit"])
            return Seed(facts["identity"], committed, planned)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StateCorruptedError(
            f"{folder}/{FOLDER}/{FACTS} can't be read: move the query to a new folder"
        ) from error
    raise StateCorruptedError(
        f"{folder}/{FOLDER} has format {version}, this muntin reads format {SEED_FORMAT}: "
        "start it with the muntin that moved it, or move the query to a new folder"
    )


def _group_blobs(blobs: Iterable[tuple[BlobKey, bytes]]) -> Iterator[pa.RecordBatch]:
    """Yield blobs as record batches of bounded size."""
    rows: list[tuple[int, int, int, bytes]] = []
    size = 0
    for key, blob in blobs:
        rows.append((*key, blob))
        size += len(blob)
        if size >= _GROUP_BYTES:
            yield _to_batch(rows)
            rows, size = [], 0
    if rows:
        yield _to_batch(rows)


def _to_batch(rows: list[tuple[int, int, int, bytes]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, f.type) for values, f in zip(columns, SEED_COLUMNS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SEED_COLUMNS)
