"""How the files of a checkpoint lie, and what is in them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from muntin.model.errors import MuntinError
from muntin.spark.host.internals.jvm import classes_of, hadoop_settings, is_connected

PARTITIONS = "spark.sql.shuffle.partitions"


def is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is a folder or a file of that name, wherever Hadoop finds it."""
    if is_connected(spark):
        try:
            spark.read.text(path)
        except AnalysisException:
            return False
        return True
    # Reading what isn't there makes Spark log a page of Java on an object store.
    where = classes_of(spark).org.apache.hadoop.fs.Path(path)
    return bool(where.getFileSystem(hadoop_settings(spark)).exists(where))


def newest_offsets(spark: SparkSession, checkpoint: str) -> list[str] | None:
    """The lines of the newest planned batch of a checkpoint.

    The first is a version, the second what holds for the whole query as JSON, and then there is one
    for each source.

    Args:
        spark: The session.
        checkpoint: The folder of a query, that may not be there yet.

    Returns:
        The lines; ``None`` where no batch was planned, or nothing can be seen of it.
    """
    if is_connected(spark):
        return _offsets_read(spark, checkpoint)
    jvm = classes_of(spark)
    folder = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets")
    files_of = folder.getFileSystem(hadoop_settings(spark))
    listed = files_of.listStatus(folder) if files_of.exists(folder) else ()
    planned = {one.getPath().getName(): one.getPath() for one in listed}
    newest = max((name for name in planned if name.isdigit()), key=int, default=None)
    if newest is None:
        return None
    stream = files_of.open(planned[newest])
    try:
        text = jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8")
    except Py4JJavaError:
        return None  # It is damaged, and Spark, which reads it next, says how.
    finally:
        stream.close()
    return str(text).split("\n")


def _offsets_read(spark: SparkSession, checkpoint: str) -> list[str] | None:
    """The same over a connection, where files are seen only by reading them."""
    files = spark.read.text(f"{checkpoint}/offsets", wholetext=True)
    try:
        found = {row[0]: row[1] for row in files.select("_metadata.file_name", "value").collect()}
    except AnalysisException:
        return None  # There is no such folder yet.
    newest = max((name for name in found if name.isdigit()), key=int, default=None)
    return None if newest is None else str(found[newest]).split("\n")


def changed_operators(error: str) -> tuple[int, int] | None:
    """How many operators a checkpoint has, and how many its query now.

    Args:
        error: What Spark says of a query that ended.

    Returns:
        The numbers; ``None`` where that isn't why it ended.
    """
    _, found, rest = error.partition("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA")
    was, _, now = rest.partition("Stateful operators in current batch:")
    return (was.count("OperatorId:"), now.count("OperatorId:")) if found else None


def query_of(spark: SparkSession, checkpoint: str) -> str:
    """By what Spark knows the query of a checkpoint, through all its starts.

    Args:
        spark: The session.
        checkpoint: The folder of a query that was started.
    """
    text = spark.read.text(f"{checkpoint}/metadata", wholetext=True).collect()[0][0]
    return str(json.loads(text)["id"])


def renumber(old: Path, new: Path, batch: int, begun: Sequence[int], buckets: int) -> None:
    """Give the new checkpoint the old one's place in its sources, and its batch number.

    Args:
        old: The old checkpoint.
        new: The new one.
        batch: The batch that is taken.
        begun: Batches behind it that Spark may have planned and not committed.
        buckets: How many buckets the new one has.
    """
    for store in (new / "state").glob("*/*"):
        if store.name.isdigit():
            _renumber_store(store, batch + 1)
    # It says which files of the state count: those that were written just now.
    commit = (new / "commits" / "0").read_bytes()
    for log in ("offsets", "commits"):
        shutil.rmtree(new / log)
        (new / log).mkdir()
    (new / "commits" / str(batch)).write_bytes(commit)
    # Spark asks what the batch before had, too, to know what the last one read.
    before = [batch - 1] if batch else []
    planned = [number for number in begun if (old / "offsets" / str(number)).exists()]
    for number in (*before, batch, *planned):
        _give_place(old, new, number, buckets)
    shutil.rmtree(new / "sources", ignore_errors=True)
    if (old / "sources").exists():
        shutil.copytree(old / "sources", new / "sources")


def _give_place(old: Path, new: Path, batch: int, buckets: int) -> None:
    """Write what a batch reads into the new checkpoint."""
    lines = (old / "offsets" / str(batch)).read_text().split("\n")
    head = json.loads(lines[1])
    head["conf"][PARTITIONS] = str(buckets)
    lines[1] = json.dumps(head)
    (new / "offsets" / str(batch)).write_text("\n".join(lines))


def _renumber_store(store: Path, version: int) -> None:
    """Keep the store's first snapshot alone, as another version."""
    # Its name goes on with the identity of the attempt that wrote it.
    snapshot = next(store.glob("1_*.zip"), None)
    if snapshot is None:
        raise MuntinError(f"Spark left no snapshot in {store}: its layout of state isn't known")
    for path in list(store.iterdir()):
        if path.is_file() and path != snapshot:
            path.unlink()
    snapshot.rename(store / f"{version}_{snapshot.name.partition('_')[2]}")
