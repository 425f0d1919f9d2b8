"""A checkpoint seen from outside, as one committed batch left it: shards' manifests and blobs.

Everything goes through Spark's own readers of state (``state-metadata`` and ``statestore``), so
that a running query isn't disturbed and whatever holds a checkpoint for Spark can be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from os import PathLike, fspath
from pathlib import PurePath
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from muntin.model.errors import OptionError
from muntin.model.joins import JoinSpec
from muntin.model.recall import recalled
from muntin.model.spec import WindowSpec
from muntin.spark.host.internals.checkpoints import home
from muntin.spark.host.internals.versions import find_state_stores
from muntin.spark.host.shards import slots
from muntin.spark.host.state import MANIFEST
from muntin.state.blobs import missing_blob_error
from muntin.state.manifest import Manifest, parse_manifest

VARIABLE = "blobs"
_OPERATOR = "transformWithState"
_NAMED = ("key.slot", "user_map_key.number", "user_map_value.blob")
_START = "give the folder that start(checkpoint=…) got, after its first batch"
_NAME = "; Spark's reader of state finds none with a space or % in its name: copy it to another one"


class Checkpoint:
    """A query's checkpoint at one batch.

    Args:
        spark: The session.
        path: The folder of the query; it may be running.
        batch: The number of a committed batch; the newest one where it isn't given.
        operator: Which of the operators that keep state, counted from the last.

    Raises:
        OptionError: When the folder isn't a checkpoint of muntin's, or has no such batch.

    Attributes:
        path: Where Spark's own files of the query are.
        batch: The batch that is read, whatever is committed meanwhile.
        operators: How many operators keep state.
        oldest: The oldest batch that can be read.
        newest: The newest one when this was opened.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str | PathLike[str],
        batch: int | None = None,
        operator: int = 0,
    ) -> None:
        path = fspath(path)
        find_state_stores(spark)
        self.spark = spark
        self.operator = operator
        self.given = path
        self.path = home(spark, path if "://" in path else str(PurePath(path)))
        self.operators, self.oldest, self.newest = self._found()
        if not 0 <= operator < self.operators:
            problem = f"isn't one of the {self.operators} operators that keep state in this query"
            raise OptionError("operator", operator, problem, "count from the last one, which is 0")
        self.batch = self.newest if batch is None else self.known("batch", batch)

    def _found(self) -> tuple[int, int, int]:
        try:
            rows = self.spark.read.format("state-metadata").load(self.path).collect()
        except PySparkException as error:
            raise self._refused(_first_line(error)) from error
        ours = [row for row in rows if row["operatorName"].startswith(_OPERATOR)]
        known = [row for row in ours if f'"{VARIABLE}"' in (row["operatorProperties"] or "")]
        if not known:
            said = "no state at all" if not rows else "no state of muntin's"
            raise self._refused(said)
        oldest, newest = known[0]["minBatchId"], known[0]["maxBatchId"]
        if newest is None or newest < 0:
            raise self._refused("no batch has been committed")
        return len(known), max(0, oldest), newest

    def _refused(self, said: str) -> OptionError:
        # Spark's reader of state looks for such a folder under the name that URLs have for it.
        hint = _START + _NAME if {" ", "%"} & {*self.path} else _START
        return OptionError("CHECKPOINT", self.given, f"holds no windows ({said})", hint)

    def known(self, option: str, batch: int) -> int:
        """A batch that can be read; refused, by the name of an option, where it can't."""
        if not self.oldest <= batch <= self.newest:
            problem = f"isn't kept: there are batches {self.oldest} to {self.newest}"
            hint = "give one of them; spark.sql.streaming.minBatchesToRetain says how many are kept"
            raise OptionError(option, batch, problem, hint)
        return batch

    def earlier(self, since: int) -> None:
        """Refuse a batch whose changes until this one can't be found out."""
        if self.known("since", since) >= self.batch:
            hint = f"give one before {self.batch}"
            raise OptionError("since", since, "isn't earlier than what is read", hint)

    def _loaded(self, **options: Any) -> DataFrame:
        reader = self.spark.read.format("statestore").options(**options)
        reader = reader.options(stateVarName=VARIABLE, operatorId=self.operator)
        return reader.load(self.path).select(*_NAMED)

    def state(self, batch: int | None = None) -> DataFrame:
        """Slot, number and blob of everything in the state."""
        try:
            return self._loaded(batchId=self.batch if batch is None else batch)
        except PySparkException as error:
            raise self._refused(_first_line(error)) from error

    def texts(self, batch: int | None = None) -> dict[int, str]:
        """The manifest of each shard, by slot, as it was written.

        Raises:
            OptionError: When nothing was written yet, or the batch's state is gone.
        """
        try:
            rows = self.state(batch).where(F.col("number") == MANIFEST).collect()
        except PySparkException as error:
            chosen = self.batch if batch is None else batch
            said = f"can't be read any more ({_first_line(error)})"
            raise OptionError("batch", chosen, said, "give a later one") from error
        if not rows:
            raise self._refused("its first batch isn't done")
        return {row["slot"]: bytes(row["blob"]).decode() for row in rows}

    @cached_property
    def manifests(self) -> dict[int, str]:
        """The manifest of each shard at this batch."""
        return self.texts()

    @cached_property
    def read(self) -> dict[int, Manifest]:
        """The same, read."""
        return {slot: parse_manifest(text) for slot, text in self.manifests.items()}

    @property
    def shards(self) -> list[Manifest]:
        """The same in the order of the shards."""
        found = slots(len(self.read))
        if set(found) != self.read.keys():
            hint = "wait until its first batch is done"
            raise OptionError("CHECKPOINT", self.given, "isn't whole yet", hint)
        return [self.read[slot] for slot in found]

    @property
    def first(self) -> Manifest:
        """The manifest of some shard, for what all have in common."""
        return next(iter(self.read.values()))

    @property
    def counts(self) -> dict[str, int]:
        """The messages of all shards so far, by what became of them."""
        found: Counter[str] = Counter()
        for manifest in self.read.values():
            found.update(manifest.counts)
            # What partitions of windows have counted is in their shard's counts, too.
            for one in manifest.by_part().values() if manifest.kind == "join" else ():
                found.update(one.counts if one is not manifest else {})
        return dict(found)

    def blobs(
        self, wanted: Mapping[int, Sequence[int]], batch: int | None = None
    ) -> dict[int, dict[int, bytes]]:
        """The blobs that are wanted, by slot and number."""
        found: dict[int, dict[int, bytes]] = {slot: {} for slot in wanted}
        asked = [n for numbers in wanted.values() for n in numbers]
        if not asked:
            return found
        here = F.col("slot").isin([s for s, n in wanted.items() if n])
        # Numbers are drawn at random, so that one is of one slot.
        for row in self.state(batch).where(here & F.col("number").isin(asked)).collect():
            found[row["slot"]][row["number"]] = bytes(row["blob"])
        for slot, numbers in wanted.items():
            for number in set(numbers) - found[slot].keys():
                raise missing_blob_error(number)
        return found

    def sizes(self) -> dict[int, dict[int, int]]:
        """How many bytes each blob has, by slot and number."""
        found: dict[int, dict[int, int]] = {}
        size = F.length("blob").alias("size")
        for row in self.state().select("slot", "number", size).collect():
            found.setdefault(row["slot"], {})[row["number"]] = row["size"]
        return found

    def written_since(self, since: int) -> dict[int, list[bytes]]:
        """The blobs that were written after a batch, by slot: the change feed of the state.

        Raises:
            OptionError: When the state store keeps no changes.
        """
        found: dict[int, list[bytes]] = {}
        until = {"changeStartBatchId": since + 1, "changeEndBatchId": self.batch}
        try:
            frame = self._loaded(readChangeFeed=True, **until)
            written = frame.where((F.col("number") != MANIFEST) & F.col("blob").isNotNull())
            for row in written.collect():
                found.setdefault(row["slot"], []).append(bytes(row["blob"]))
        except PySparkException as error:
            hint = "start the query with changelog checkpointing, as muntin.session() does"
            said = f"has no change feed ({_first_line(error)})"
            raise OptionError("CHECKPOINT", self.given, said, hint) from error
        return found


def _first_line(error: PySparkException) -> str:
    return str(error).strip().splitlines()[0][:120]


def spec_of(opened: Checkpoint) -> WindowSpec | JoinSpec:
    """The query whose checkpoint it is.

    Raises:
        OptionError: When it holds something else, or was written by another version.
    """
    kind, given = opened.first.kind, opened.given
    if kind == "tables":
        names = ", ".join(map(repr, opened.first.spec))
        hint = f"write muntin.open_table(checkpoint, name) with one of {names}"
        raise OptionError("CHECKPOINT", given, "holds tables", hint)
    if kind == "windowing":
        hint = "go on with muntin windowing, whose page shows what it holds"
        raise OptionError("CHECKPOINT", given, "holds the windowing application's rows", hint)
    return recalled(opened.first.spec)
