"""Messages on their way to a topic: what the broker or JSON can't take is found, and set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from muntin.model.pipeline import quoted
from muntin.spark.sinks.plain import as_json
from muntin.spark.sinks.unstorable import ROW, WHY

_NOT_TEXT = "a text isn't UTF-8, as JSON must be"
_TOO_LARGE = "RecordTooLargeException"
# What a driver says of an error whose class only the executors have, as with added jars.
_UNKNOWN = "UnknownReason"
# What a record and its batch need beside its bytes at most, and a header of it (Kafka's own count).
_OVERHEAD, _A_HEADER = 100, 10
_MESSAGE = ("key", "value", "headers")


def is_text(column: Column, kind: DataType) -> Column:
    """Whether all text of a column is UTF-8; what else Spark has in text comes out of casts."""
    found = F.lit(True)
    if isinstance(kind, StringType):
        found = F.is_valid_utf8(column)
    elif isinstance(kind, ArrayType):
        found = F.forall(column, lambda one: is_text(one, kind.elementType))
    elif isinstance(kind, MapType):
        keys = is_text(F.map_keys(column), ArrayType(kind.keyType))
        found = keys & is_text(F.map_values(column), ArrayType(kind.valueType))
    elif isinstance(kind, StructType):
        parts = (is_text(column[field.name], field.dataType) for field in kind.fields)
        found = reduce(Column.__and__, parts, found)
    return F.coalesce(found, F.lit(True))


class OutgoingMessages:
    """Messages that are sent as one batch, and in its order.

    Args:
        rows: ``row``, what the message is made of; ``texts``, whether that is text where it must
            be; ``key``, ``value`` and ``headers``.
        most: How many bytes a message may have by the client's settings.
        save: Sends messages.
    """

    def __init__(self, rows: DataFrame, most: int, save: Callable[[DataFrame], None]) -> None:
        self._rows = rows.withColumn("size", _size())
        self._most = most
        self._save = save

    def send(self) -> DataFrame | None:
        """Send all that can be sent.

        Messages are looked at only when some weren't taken. They may have been sent by then, or
        some of them: what can be sent is sent again, all of it, in its order.

        Returns:
            ``row`` and ``why`` of the others; ``None`` where there are none.
        """
        value = F.when(F.col("texts"), F.col("value")).otherwise(F.raise_error(F.lit(_NOT_TEXT)))
        if self._taken(self._rows.withColumn("value", value)):
            return None
        limit = self._most
        self._probe()
        if not self._taken(self._up_to(limit)):
            limit = self._searched()
            self._save(self._up_to(limit).select(*_MESSAGE))
        large = F.concat(F.lit("the message is too large: "), F.col("size"), F.lit(" bytes"))
        why = F.when(~F.col("texts"), F.lit(_NOT_TEXT)).when(F.col("size") > limit, large)
        unfit = self._rows.withColumn(WHY, why).where(F.col(WHY).isNotNull())
        return unfit.select("row", WHY).mapInArrow(_encoded, f"{ROW} string, {WHY} string")

    def _probe(self) -> None:
        """Send the smallest message once more: where that fails, it isn't the messages' fault."""
        size = F.col("size")
        smallest = self._up_to(self._most).agg(F.min(size).alias("size")).first()
        if smallest is not None and smallest["size"] is not None:
            try:
                self._save(self._up_to(smallest["size"]).limit(1).select(*_MESSAGE))
            except Exception as error:
                if _TOO_LARGE not in str(error):
                    raise

    def _up_to(self, most: int, least: int = 0) -> DataFrame:
        size = F.col("size")
        return self._rows.where(F.col("texts") & (size >= least) & (size <= most))

    def _searched(self) -> int:
        """How many bytes a message may have for the topic, where that is less than the client's."""
        fits, fails = 0, self._most
        while fails - fits > 1:
            middle = (fits + fails) // 2
            if self._taken(self._up_to(middle, fits + 1)):
                fits = middle
            else:
                fails = middle
        return fits

    def _taken(self, rows: DataFrame) -> bool:
        try:
            self._save(rows.select(*_MESSAGE))
        except Exception as error:
            if any(words in str(error) for words in (_NOT_TEXT, _TOO_LARGE, _UNKNOWN)):
                return False
            raise
        return True


def _size() -> Column:
    """At least as many bytes as Kafka counts before it compresses."""
    key, value = (F.coalesce(F.octet_length(name), F.lit(0)) for name in ("key", "value"))

    def added(total: Column, one: Column) -> Column:
        lengths = (F.coalesce(F.octet_length(one[name]), F.lit(0)) for name in ("key", "value"))
        return reduce(Column.__add__, lengths, total + _A_HEADER)

    return key + value + F.aggregate("headers", F.lit(_OVERHEAD), added)


def _encoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        row = batch.column("row")
        names = [field.name for field in row.type]
        texts = as_json(pa.Table.from_arrays(row.flatten(), names=names))
        columns = [pa.array(texts, pa.string()), batch.column(WHY).cast(pa.string())]
        yield pa.RecordBatch.from_arrays(columns, names=[ROW, WHY])


def texts(names: Sequence[str], schema: StructType) -> Column:
    """Whether columns that become JSON are text where they must be."""
    kinds = {field.name.lower(): field.dataType for field in schema.fields}
    parts = (is_text(F.col(quoted(name)), kinds[name.lower()]) for name in names)
    return reduce(Column.__and__, parts, F.lit(True))
