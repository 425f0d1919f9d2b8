"""Reads and rewrites the files of Spark's checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from muntin.model.errors import MuntinError, StateCorruptedError
from muntin.spark.host.internals.hadoop_path import HadoopPath, url_of
from muntin.spark.host.internals.jvm import is_connected

PARTITIONS = "spark.sql.shuffle.partitions"
# The folder below a checkpoint with those that replace it, by number, and the suffix of the file
# that marks one of them as complete.
MOVED, _WHOLE = "moved", ".whole"
# The suffix of a log of files that contains all earlier ones.
_COMPACT = ".compact"
FilesRead = Sequence[tuple[str, int]]
"""The files of a batch: their paths and times of modification, milliseconds."""


def path_exists(spark: SparkSession, path: str) -> bool:
    """Return whether a folder or a file exists, in any file system that Hadoop reaches."""
    if is_connected(spark):
        try:
            # A session of Spark Connect analyzes a plan when it is asked for its schema.
            spark.read.text(path).schema  # noqa: B018
        except AnalysisException:
            return False
        return True
    # Spark logs a page of Java when it reads a missing file of an object store.
    return HadoopPath(spark, path).exists()


def find_home(spark: SparkSession, checkpoint: str) -> str:
    """Return the folder of Spark's own files of a query: its checkpoint, or the one replacing it.

    A rescale writes the state of a query anew, to a folder below its checkpoint. That folder
    replaces the checkpoint as soon as the file that marks it as complete exists.
    """
    whole = [name.removesuffix(_WHOLE) for name in _counting(spark, f"{checkpoint}/{MOVED}")]
    newest = max((name for name in whole if name.isdigit()), key=int, default=None)
    return checkpoint if newest is None else f"{checkpoint}/{MOVED}/{newest}"


def _counting(spark: SparkSession, folder: str) -> list[str]:
    """Return the files that mark complete folders; none where the folder doesn't exist."""
    if not is_connected(spark):
        names = [one.name for one in HadoopPath(spark, folder).children()]
        return [name for name in names if name.endswith(_WHOLE)]
    files = spark.read.text(f"{folder}/*{_WHOLE}").select("_metadata.file_name")
    try:
        return [row[0] for row in files.distinct().collect()]
    except AnalysisException:
        return []


def next_home(spark: SparkSession, checkpoint: str) -> str:
    """Return a folder for state that is written anew, which doesn't exist yet.

    The remains of an interrupted attempt are deleted.
    """
    current = HadoopPath(spark, find_home(spark, checkpoint)).name
    moved = HadoopPath(spark, f"{checkpoint}/{MOVED}")
    for one in moved.children():
        if one.name.removesuffix(_WHOLE) != current:
            one.delete()
    return str(moved / str(int(current) + 1 if current.isdigit() else 1))


def remove_cut_off_move(spark: SparkSession, checkpoint: str) -> None:
    """Delete the temporary files of a driver that was killed during a rescale."""
    for one in HadoopPath(spark, f"{checkpoint}/{MOVED}").children():
        if one.name.endswith(".moving"):
            one.delete()


def replace_home(spark: SparkSession, checkpoint: str, new: str) -> None:
    """Have the query continue from the state that was written anew, and delete its old state."""
    old = HadoopPath(spark, find_home(spark, checkpoint))
    part = HadoopPath(spark, f"{new}.part")
    part.write(f"{new} takes the place of {old}\n")
    part.rename(HadoopPath(spark, f"{new}{_WHOLE}"))
    # The checkpoint keeps its planned batches: if somebody starts a query from it without muntin,
    # Spark refuses batches without state, whereas it would start afresh in an empty folder.
    (old / "state").delete()
    if old.name.isdigit() and str(old) != str(HadoopPath(spark, checkpoint)):
        old.delete()
        HadoopPath(spark, f"{old}{_WHOLE}").delete()


def find_newest_batch(spark: SparkSession, checkpoint: str) -> int | None:
    """Return the number of the newest committed batch; ``None`` where there is none."""
    return _find_newest(HadoopPath(spark, f"{find_home(spark, checkpoint)}/commits"))


def _find_newest(folder: HadoopPath) -> int | None:
    """Return the greatest number that is the name of a file in a folder."""
    return max((int(one.name) for one in folder.children() if one.name.isdigit()), default=None)


def refuse_missing_files(
    spark: SparkSession, checkpoint: str, committed: int | None, recorded: int
) -> None:
    """Refuse a checkpoint from which Spark would start anew, although batches were committed.

    Without offsets Spark reads the sources from their beginning, with an empty state; without its
    metadata a query is another one, whose batches sinks don't recognize.

    Args:
        spark: A session with a JVM of its own.
        checkpoint: The folder of the query.
        committed: Its newest committed batch; ``None`` where there is none.
        recorded: The last batch that the sinks have, by the query's own record; -1 without one.

    Raises:
        StateCorruptedError: When a part of it is gone.
    """
    # The record is written before the commit, and after that of the batch before.
    done = max(-1 if committed is None else committed, recorded - 1)
    if done < 0:
        return
    home = HadoopPath(spark, find_home(spark, checkpoint))
    planned = _find_newest(home / "offsets")
    operators = [one.name for one in (home / "state").children() if one.name.isdigit()]
    parts = {
        "offsets": planned is not None and planned >= done,
        "commits": committed is not None and committed >= done,
        "metadata": (home / "metadata").exists(),
        "state": bool(operators),
    }
    # Without these Spark fails in the first batch, and doesn't say that a file is gone.
    for metadata in (f"state/{operator}/_metadata" for operator in operators):
        parts[metadata] = any((home / metadata).children())
    lines = [] if planned is None else _read_planned_offsets(spark, checkpoint, planned)
    if any(line.startswith('{"logOffset":') for line in lines):
        parts["sources"] = any((home / "sources").children())
    for part, is_whole in parts.items():
        if not is_whole:
            raise StateCorruptedError(
                f"{home / part} lacks what batch {done} wrote: it was deleted. Restore the "
                "checkpoint from a copy, or start with a new folder and new tables"
            )


def read_newest_offsets(spark: SparkSession, checkpoint: str) -> list[str] | None:
    """Return the lines of the newest planned batch of a checkpoint, if its file can be read.

    The first line is a version, the second one JSON that holds for the whole query, and each
    further line belongs to a source.
    """
    if is_connected(spark):
        return _read_offset_files(spark, checkpoint)
    offsets = HadoopPath(spark, f"{find_home(spark, checkpoint)}/offsets")
    planned = [one for one in offsets.children() if one.name.isdigit()]
    newest = max(planned, key=lambda one: int(one.name), default=None)
    if newest is None:
        return None
    try:
        return newest.read().split("\n")
    except Py4JJavaError:
        return None  # The file is damaged; Spark reads it next, and reports that.


def _read_planned_offsets(spark: SparkSession, checkpoint: str, batch: int) -> list[str]:
    """Return the end offset of each source in a batch, as JSON; none where they can't be read."""
    try:
        return read_offset_lines(spark, checkpoint, batch)[2:]
    except Py4JJavaError:
        return []  # The file is damaged; Spark reads it next, and reports that.


def read_offset_lines(spark: SparkSession, checkpoint: str, batch: int) -> list[str]:
    """Return the lines of a planned batch, as `newest_offsets` does; none where there is none."""
    path = HadoopPath(spark, f"{find_home(spark, checkpoint)}/offsets/{batch}")
    return path.read().split("\n") if path.exists() else []


def _read_offset_files(spark: SparkSession, checkpoint: str) -> list[str] | None:
    """Return `newest_offsets` over Spark Connect, where only Spark itself can read files."""
    files = spark.read.text(f"{find_home(spark, checkpoint)}/offsets", wholetext=True)
    try:
        texts = {row[0]: row[1] for row in files.select("_metadata.file_name", "value").collect()}
    except AnalysisException:
        return None  # The folder doesn't exist yet.
    newest = max((name for name in texts if name.isdigit()), key=int, default=None)
    return None if newest is None else str(texts[newest]).split("\n")


def find_changed_operators(error: str) -> tuple[int, int] | None:
    """Return the operator counts of a checkpoint and its query, if an error says they differ."""
    _, marker, rest = error.partition("STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA")
    was, _, now = rest.partition("Stateful operators in current batch:")
    return (was.count("OperatorId:"), now.count("OperatorId:")) if marker else None


def read_query_id(spark: SparkSession, checkpoint: str) -> str:
    """Return Spark's identifier of a checkpoint's query, which is the same for all its runs."""
    path = f"{find_home(spark, checkpoint)}/metadata"
    if is_connected(spark):
        text = str(spark.read.text(path, wholetext=True).collect()[0][0])
    else:
        # That is faster than a job.
        text = HadoopPath(spark, path).read()
    return str(json.loads(text)["id"])


def renumber(
    spark: SparkSession, old: str, new: str, batch: int, started: Sequence[int], shards: int
) -> None:
    """Give a new checkpoint the identity, source offsets and batch number of an old one.

    The next batch continues the number. Spark may have planned ``started`` later batches.
    """
    before, after = HadoopPath(spark, old), HadoopPath(spark, new)
    _renumber_state(after, batch)
    # Spark needs the offsets of the batch before, too, as the start of the last one's range.
    planned = [number for number in started if (before / "offsets" / str(number)).exists()]
    for number in (*([batch - 1] if batch else []), batch, *planned):
        _copy_offsets(before, after, number, shards)
    # The query's identifier, by which sinks recognize repeated batches, is in its metadata.
    for entry in ("sources", "metadata"):
        if (before / entry).exists():
            (after / entry).delete()
            (before / entry).copy(after / entry)


def begin_at(
    spark: SparkSession,
    new: str,
    identity: str,
    batch: int,
    planned: Mapping[int, tuple[int, Sequence[str]]],
) -> None:
    """Give a new checkpoint, which has the state of one batch, the identity and number of a query.

    ``planned`` has, by number, the clock of a batch (microseconds) and the end offset of each
    source: of that batch, and of a later one that was planned.
    """
    after = HadoopPath(spark, new)
    version, head, *_ = (after / "offsets" / "0").read().split("\n")
    _renumber_state(after, batch)
    # Spark needs the offsets of the batch before, too, as the start of the last one's range.
    before = {batch - 1: planned[batch]} if batch else {}
    for number, (now, ends) in {**before, **planned}.items():
        facts = {**json.loads(head), "batchTimestampMs": now // 1000}
        text = "\n".join([version, json.dumps(facts), *ends])
        (after / "offsets" / str(number)).write(text)
    metadata = after / "metadata"
    metadata.delete()
    metadata.write(json.dumps({"id": identity}))


def write_files_read(
    spark: SparkSession, home: str, source: int, batches: Sequence[FilesRead]
) -> None:
    """Write the log of a source of files, by which Spark knows those that it has read.

    ``batches`` has the local paths of each batch from number 0, and their times in milliseconds.
    """
    folder = HadoopPath(spark, f"{home}/sources/{source}")
    for number, files in enumerate(batches):
        entries = (
            {"path": url_of(spark, path), "timestamp": time, "batchId": number}
            for path, time in files
        )
        (folder / str(number)).write("\n".join(["v1", *map(json.dumps, entries)]))


def read_files_read(spark: SparkSession, home: str, source: int) -> list[tuple[int, str, int]]:
    """Return the batch, URL and time (milliseconds) of each file that a source has read."""
    logs = {one.name: one for one in HadoopPath(spark, f"{home}/sources/{source}").children()}
    compact = max((int(n.removesuffix(_COMPACT)) for n in logs if n.endswith(_COMPACT)), default=-1)
    names = [f"{compact}{_COMPACT}"] if compact >= 0 else []
    names += sorted((n for n in logs if n.isdigit() and int(n) > compact), key=int)
    files = []
    for name in names:
        for line in logs[name].read().split("\n")[1:]:
            entry = json.loads(line) if line.startswith("{") else {}
            if entry.keys() >= {"path", "timestamp", "batchId"}:
                files.append((entry["batchId"], entry["path"], entry["timestamp"]))
    return files


def _renumber_state(new: HadoopPath, batch: int) -> None:
    """Give the state that the first batch of a checkpoint has written another batch's number."""
    for operator in (new / "state").children():
        for store in operator.children():
            if store.name.isdigit():
                _renumber_store(store, batch + 1)
    # The commit names the files of the state that count, which were written just now.
    commit = (new / "commits" / "0").read()
    for log in ("offsets", "commits", "sources"):
        (new / log).delete()
    (new / "commits" / str(batch)).write(commit)


def _copy_offsets(old: HadoopPath, new: HadoopPath, batch: int, shards: int) -> None:
    """Write a batch's offsets into the new checkpoint."""
    lines = (old / "offsets" / str(batch)).read().split("\n")
    head = json.loads(lines[1])
    head["conf"][PARTITIONS] = str(shards)
    lines[1] = json.dumps(head)
    (new / "offsets" / str(batch)).write("\n".join(lines))


def _renumber_store(store: HadoopPath, version: int) -> None:
    """Rename the first snapshot of a store to another version, and delete its other files."""
    files = [one for one in store.children() if not one.is_folder()]
    # The identity of the attempt that wrote a snapshot follows its version in the name.
    snapshots = [one for one in files if one.name.startswith("1_") and one.name.endswith(".zip")]
    if not snapshots:
        raise MuntinError(f"Spark left no snapshot in {store}: its layout of state isn't known")
    for one in files:
        if one.name != snapshots[0].name:
            one.delete()
    snapshots[0].rename(store / f"{version}_{snapshots[0].name.partition('_')[2]}")
