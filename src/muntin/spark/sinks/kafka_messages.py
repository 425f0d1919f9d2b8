"""Messages on their way to a topic: what the broker or JSON can't take is found, and set aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StringType, StructType

from muntin.model.pipeline import quoted
from muntin.spark.sinks.plain import as_json
from muntin.spark.sinks.unstorable import ROW, WHY

_NOT_TEXT = "a text isn't UTF-8, as JSON must be"
# What the job that sends ends with then.
_INVALID = "muntin found no UTF-8"
_TOO_LARGE = "RecordTooLargeException"
# What a driver says of an error whose class only the executors have, as with added jars.
_UNKNOWN = "UnknownReason"
# What a record and its batch need beside its bytes at most, and a header of it (Kafka's own count).
_OVERHEAD, _A_HEADER = 100, 10
_MESSAGE = ("key", "value", "headers")


def is_text(value: str, kind: DataType, depth: int = 0) -> str | None:
    """A condition in SQL: whether all text of a value is UTF-8; ``None`` where it has no text.

    What else Spark has in text comes out of casts.

    Args:
        value: The value, in SQL.
        kind: Its type.
        depth: In how many lists it lies: each has a variable of its own.
    """
    found: list[str | None] = []
    if isinstance(kind, StringType):
        found = [f"is_valid_utf8({value})"]
    elif isinstance(kind, ArrayType):
        one = f"one{depth}"
        inner = is_text(one, kind.elementType, depth + 1)
        found = [inner and f"forall({value}, {one} -> {inner})"]
    elif isinstance(kind, MapType):
        found = [
            is_text(f"map_keys({value})", ArrayType(kind.keyType), depth),
            is_text(f"map_values({value})", ArrayType(kind.valueType), depth),
        ]
    elif isinstance(kind, StructType):
        found = [is_text(f"{value}.{quoted(f.name)}", f.dataType, depth) for f in kind.fields]
    known = [one for one in found if one is not None]
    return f"coalesce({' AND '.join(known)}, true)" if known else None


class OutgoingMessages:
    """Messages that are sent as one batch, and in its order.

    Args:
        rows: ``row``, what the message is made of; ``texts``, whether that is text where it must
            be; ``key``, ``value`` and ``headers``.
        most: How many bytes a message may have by the client's settings.
        save: Sends messages.
    """

    def __init__(self, rows: DataFrame, most: int, save: Callable[[DataFrame], None]) -> None:
        self._all = rows
        self._most = most
        self._save = save

    def send(self) -> DataFrame | None:
        """Send all that can be sent.

        Messages are looked at only when some weren't taken. They may have been sent by then, or
        some of them: what can be sent is sent again, all of it, in its order.

        Returns:
            ``row`` and ``why`` of the others; ``None`` where there are none.
        """
        value = f"CASE WHEN texts THEN value ELSE raise_error('{_INVALID}') END AS value"
        if self._taken(self._all.selectExpr("key", value, "headers")):
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

    @cached_property
    def _rows(self) -> DataFrame:
        """The messages with their sizes, which are asked for where some weren't taken."""
        return self._all.withColumn("size", _size())

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
            if any(words in str(error) for words in (_INVALID, _TOO_LARGE, _UNKNOWN)):
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
    parts = [is_text(quoted(name), kinds[name.lower()]) for name in names]
    return F.expr(" AND ".join(part for part in parts if part is not None) or "true")
