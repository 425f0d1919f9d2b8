"""How the files of a checkpoint lie, and what is in them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from muntin.model.errors import MuntinError
from muntin.spark.host.internals.hadoop_path import HadoopPath
from muntin.spark.host.internals.jvm import is_connected

PARTITIONS = "spark.sql.shuffle.partitions"
# Below a checkpoint: those that took its place, by number, and a file for each that is whole.
MOVED, _WHOLE = "moved", ".whole"


def is_there(spark: SparkSession, path: str) -> bool:
    """Whether there is a folder or a file of that name, wherever Hadoop finds it."""
    if is_connected(spark):
        try:
            spark.read.text(path)
        except AnalysisException:
            return False
        return True
    # Reading what isn't there makes Spark log a page of Java on an object store.
    return HadoopPath(spark, path).exists()


def home(spark: SparkSession, checkpoint: str) -> str:
    """Where Spark's own files of a query are: its folder, or what took that one's place.

    The state of a query that goes on with another number of shards is written anew below its
    folder, and counts from when the file beside it says that it is whole.
    """
    whole = [name.removesuffix(_WHOLE) for name in _counting(spark, f"{checkpoint}/{MOVED}")]
    newest = max((name for name in whole if name.isdigit()), key=int, default=None)
    return checkpoint if newest is None else f"{checkpoint}/{MOVED}/{newest}"


def _counting(spark: SparkSession, folder: str) -> list[str]:
    """The files in a folder that say what is whole; there may be none, and no folder."""
    if not is_connected(spark):
        names = [one.name for one in HadoopPath(spark, folder).children()]
        return [name for name in names if name.endswith(_WHOLE)]
    files = spark.read.text(f"{folder}/*{_WHOLE}").select("_metadata.file_name")
    try:
        return [row[0] for row in files.distinct().collect()]
    except AnalysisException:
        return []


def next_home(spark: SparkSession, checkpoint: str) -> str:
    """Where state that is written anew goes, which isn't there yet.

    What an attempt that was cut off has left behind is deleted.
    """
    current = HadoopPath(spark, home(spark, checkpoint)).name
    moved = HadoopPath(spark, f"{checkpoint}/{MOVED}")
    for one in moved.children():
        if one.name.removesuffix(_WHOLE) != current:
            one.delete()
    return str(moved / str(int(current) + 1 if current.isdigit() else 1))


def take_place(spark: SparkSession, checkpoint: str, new: str) -> None:
    """Let the query go on from what was written anew, and delete the state that it had."""
    old = HadoopPath(spark, home(spark, checkpoint))
    part = HadoopPath(spark, f"{new}.part")
    part.write(f"{new} takes the place of {old}\n")
    part.rename(HadoopPath(spark, f"{new}{_WHOLE}"))
    # Of the folder itself the plans stay: without state Spark refuses them, in place of beginning
    # anew, if somebody starts a query from it without muntin.
    (old / "state").delete()
    if old.name.isdigit() and str(old) != str(HadoopPath(spark, checkpoint)):
        old.delete()
        HadoopPath(spark, f"{old}{_WHOLE}").delete()


def newest_batch(spark: SparkSession, checkpoint: str) -> int | None:
    """The newest batch that was committed; ``None`` where none was."""
    commits = HadoopPath(spark, f"{home(spark, checkpoint)}/commits")
    return max((int(one.name) for one in commits.children() if one.name.isdigit()), default=None)


def newest_offsets(spark: SparkSession, checkpoint: str) -> list[str] | None:
    """The lines of the newest planned batch of a checkpoint.

    The first is a version, the second what holds for the whole query as JSON, and then there is one
    for each source.

    Returns:
        The lines; ``None`` where no batch was planned, or nothing can be seen of it.
    """
    if is_connected(spark):
        return _offsets_read(spark, checkpoint)
    offsets = HadoopPath(spark, f"{home(spark, checkpoint)}/offsets")
    planned = [one for one in offsets.children() if one.name.isdigit()]
    newest = max(planned, key=lambda one: int(one.name), default=None)
    if newest is None:
        return None
    try:
        return newest.read().split("\n")
    except Py4JJavaError:
        return None  # It is damaged, and Spark, which reads it next, says how.


def planned_offsets(spark: SparkSession, checkpoint: str, batch: int) -> list[str]:
    """The offsets up to which a batch reads, as JSON, one of each source; none where unseen."""
    if is_connected(spark):
        return []
    try:
        path = HadoopPath(spark, f"{home(spark, checkpoint)}/offsets/{batch}")
        return path.read().split("\n")[2:]
    except Py4JJavaError:
        return []  # It is what a figure is made of, and no reason to end a batch.


def _offsets_read(spark: SparkSession, checkpoint: str) -> list[str] | None:
    """The same over a connection, where files are seen only by reading them."""
    files = spark.read.text(f"{home(spark, checkpoint)}/offsets", wholetext=True)
    try:
        found = {row[0]: row[1] for row in files.select("_metadata.file_name", "value").collect()}
    except AnalysisException:
        return None  # There is no such folder yet.
    newest = max((name for name in found if name.isdigit()), key=int, default=None)
    return None if newest is None else str(found[newest]).split("\n")


def changed_operators(error: str) -> tuple[int, int] | None:
    """How many operators a checkpoint has, and its query now, if the query ended by that."""
    _, found, rest = error.partition("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA")
    was, _, now = rest.partition("Stateful operators in current batch:")
    return (was.count("OperatorId:"), now.count("OperatorId:")) if found else None


def query_of(spark: SparkSession, checkpoint: str) -> str:
    """By what Spark knows the query of a checkpoint, through all its starts."""
    text = spark.read.text(f"{home(spark, checkpoint)}/metadata", wholetext=True).collect()[0][0]
    return str(json.loads(text)["id"])


def renumber(
    spark: SparkSession, old: str, new: str, batch: int, begun: Sequence[int], buckets: int
) -> None:
    """Make the new checkpoint the old one's query, at the same place in its sources.

    Args:
        spark: The session.
        old: The old checkpoint.
        new: The new one.
        batch: The batch that is taken, whose number goes on.
        begun: Batches behind it that Spark may have planned and not committed.
        buckets: How many buckets the new one has.
    """
    before, after = HadoopPath(spark, old), HadoopPath(spark, new)
    for operator in (after / "state").children():
        for store in operator.children():
            if store.name.isdigit():
                _renumber_store(store, batch + 1)
    # It says which files of the state count: those that were written just now.
    commit = (after / "commits" / "0").read()
    for log in ("offsets", "commits", "sources"):
        (after / log).delete()
    (after / "commits" / str(batch)).write(commit)
    # Spark asks what the batch before had, too, to know what the last one read.
    planned = [number for number in begun if (before / "offsets" / str(number)).exists()]
    for number in (*([batch - 1] if batch else []), batch, *planned):
        _give_place(before, after, number, buckets)
    # By its name sinks know what they have.
    for kept in ("sources", "metadata"):
        if (before / kept).exists():
            (after / kept).delete()
            (before / kept).copy(after / kept)


def _give_place(old: HadoopPath, new: HadoopPath, batch: int, buckets: int) -> None:
    """Write what a batch reads into the new checkpoint."""
    lines = (old / "offsets" / str(batch)).read().split("\n")
    head = json.loads(lines[1])
    head["conf"][PARTITIONS] = str(buckets)
    lines[1] = json.dumps(head)
    (new / "offsets" / str(batch)).write("\n".join(lines))


def _renumber_store(store: HadoopPath, version: int) -> None:
    """Keep the store's first snapshot alone, as another version."""
    files = [one for one in store.children() if not one.is_folder()]
    # Its name goes on with the identity of the attempt that wrote it.
    snapshots = [one for one in files if one.name.startswith("1_") and one.name.endswith(".zip")]
    if not snapshots:
        raise MuntinError(f"Spark left no snapshot in {store}: its layout of state isn't known")
    for one in files:
        if one.name != snapshots[0].name:
            one.delete()
    snapshots[0].rename(store / f"{version}_{snapshots[0].name.partition('_')[2]}")
