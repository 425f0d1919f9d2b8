"""B1: the cost of bad messages beside good ones.

    .venv/bin/python -m benches.bad_messages [--messages 100000]

Messages of each format, some of which are bad, are decoded on one core, from the buffer in which
the reader of Kafka has them. The table has the CPU time of a message, and its ratio to that of good
messages alone. Bad messages are of one kind, or of several kinds at random. A time counts only if
exactly the bad messages were rejected.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from random import Random
from typing import Any

os.environ.setdefault("POLARS_MAX_THREADS", "1")

import polars as pl
from google.protobuf import descriptor_pb2, message_factory, text_format
from tests.unit.sources.buffers import put_in_buffer

from benches.topics import AVRO, encode_messages, stream
from muntin.engine.session_zone import SessionZone
from muntin.sources.avro_payloads import AvroPayloads
from muntin.sources.byte_values import ByteValues
from muntin.sources.csv_payloads import CsvPayloads
from muntin.sources.json_nested import NestedJsonPayloads
from muntin.sources.json_payloads import JsonPayloads
from muntin.sources.kafka import record
from muntin.sources.payloads import Payloads
from muntin.sources.protobuf_payloads import ProtobufPayloads
from muntin.sources.protobuf_schema import message_of

COLUMNS: dict[str, pl.DataType] = {
    "id": pl.Int64(), "at": pl.Datetime("us", "UTC"), "k": pl.Int64(), "v": pl.Int64()
}  # fmt: skip
# A bad message in so many.
SHARES = (500, 5, 2, 1)
_ROUNDS = 5
# The numbers of kinds in mixes, besides that of all kinds.
_MIXED = (2, 3, 5, 5, 8)
Change = Callable[[bytes], bytes | None]


def _with_last(value: bytes) -> Change:
    """Return a change of the last member's value."""
    return lambda good: good[: good.rindex(b":") + 1] + value + b"}"


BAD: dict[str, dict[str, Change]] = {
    "json": {
        "half a surrogate pair": lambda good: good[:-1] + b',"x":"\\ud800"}',
        "a number beyond 64 bits": _with_last(b"99999999999999999999"),
        "1e999": _with_last(b"1e999"),
        "a text for a number": _with_last(b'"x"'),
        "a fraction for a whole number": lambda good: good[:-1] + b".5}",
        "an object for a number": _with_last(b'{"a":1}'),
        "an array for a number": _with_last(b"[1]"),
        "a deep array for a number": _with_last(b"[" * 8 + b"]" * 8),
        "true for a number": _with_last(b"true"),
        "NaN": _with_last(b"NaN"),
        "a time that is none": lambda good: good.replace(b':"2', b':"x'),
        "a comma too many": lambda good: good[:-1] + b",}",
        "a name without quotes": lambda good: good.replace(b'"v"', b"v"),
        "an escape that is none": lambda good: good[:-1] + b',"x":"\\q"}',
        "no JSON": lambda _: b"hello, world",
        "empty": lambda _: b"",
        "cut off": lambda good: good[: len(good) // 2],
        "not UTF-8": lambda good: b"\xff" + good,
        "null": lambda _: None,
    },
    "csv": {
        "a field too many": lambda good: good + b",1",
        "a text for a number": lambda good: good + b"x",
        "an open quote": lambda good: b'"' + good,
        "a text in quotes for a number": lambda good: good[: good.rindex(b",")] + b',"x"',
        "fields in quotes, and one too many": lambda good: (
            b'"' + good.replace(b",", b'","') + b'","1"'
        ),
        "a time that is none": lambda good: good.replace(b",2", b",x", 1),
        "empty": lambda _: b"",
        "not UTF-8": lambda good: b"\xff" + good,
        "null": lambda _: None,
    },
    "avro": {
        "cut off": lambda good: good[: len(good) // 2],
        "bytes behind it": lambda good: good + b"\0",
        "endless varint": lambda _: b"\xff" * 30,
        "null": lambda _: None,
    },
}

BAD["json, an array"] = BAD["json"]
BAD["protobuf"] = {
    **BAD["avro"],
    "a field without its value": lambda good: good + b"\x08",
    "a length beyond the end": lambda good: good + b"\x7a\x7f",
    "a group": lambda good: good + b"\x7b\x7c",
    "the number zero": lambda good: b"\x02\0" + good,
    "other fields, and a broken one": lambda good: good + b"\x78\0" * 8 + b"\x78",
    "text": lambda _: b"hello, world",
}
# A message of this type has the four numbers of the stream.
_PROTO = """
name: "order.proto" syntax: "proto3"
message_type {
  name: "Order"
  field { name: "id" number: 1 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "at" number: 2 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "k" number: 3 type: TYPE_INT64 label: LABEL_OPTIONAL }
  field { name: "v" number: 4 type: TYPE_INT64 label: LABEL_OPTIONAL }
}
"""


def payloads_of(form: str) -> Payloads:
    """Return the decoder of a format."""
    if form == "avro":
        kind = record(AVRO)
        return AvroPayloads(kind, kind.columns())
    if form == "protobuf":
        message = message_of(_order())
        return ProtobufPayloads(message, message.columns())
    if form == "json, an array":
        return NestedJsonPayloads({**COLUMNS, "a": pl.List(pl.Int64())}, SessionZone())
    kinds = {"json": JsonPayloads, "csv": CsvPayloads}
    return kinds[form](COLUMNS, SessionZone())


@cache
def _order() -> Any:
    """Return the class of Protobuf's messages."""
    file = text_format.Parse(_PROTO, descriptor_pb2.FileDescriptorProto())
    return message_factory.GetMessages([file])["Order"]


def messages_of(form: str, count: int) -> list[bytes]:
    """Return good messages of a format."""
    if form == "protobuf":
        columns = [range(count), *(one.tolist() for one in stream(0, count))]
        names = ("id", "at", "k", "v")
        rows = zip(*columns, strict=True)
        return [_order()(**dict(zip(names, row, strict=True))).SerializeToString() for row in rows]
    good = [*encode_messages(form.partition(",")[0], 0, stream(0, count))]
    if form == "json, an array":
        return [message.replace(b',"v"', b',"a":[1,2],"v"') for message in good]
    return good


def measure(payloads: Payloads, values: ByteValues, bad: int) -> float:
    """Return the CPU time of a message in nanoseconds, the least of some rounds.

    Raises:
        RuntimeError: When another number of messages is malformed.
    """
    least = float("inf")
    for _ in range(_ROUNDS):
        began = time.process_time()
        decoded = payloads.decode(values)
        least = min(least, time.process_time() - began)
    if decoded.bad.sum() != bad:
        raise RuntimeError(f"{decoded.bad.sum()} messages of {payloads.shape} are bad, not {bad}")
    return least / len(values) * 1e9


def rows_of(form: str, count: int) -> Iterator[str]:
    """Yield the rows of a format: good messages, and those of each kind among them."""
    payloads, good = payloads_of(form), messages_of(form, count)
    alone = measure(payloads, put_in_buffer([*good]), 0)
    yield f"| {form} | good ones alone | {alone:.0f} |{' |' * (2 * len(SHARES) - 1)}"
    dice = Random(1)
    kinds = {name: [change] for name, change in BAD[form].items()}
    every = [*BAD[form].values()]
    for size in (*_MIXED, len(every)):
        if size <= len(every):
            chosen = dice.sample([*BAD[form]], size)
            name = "all kinds" if size == len(every) else f"{size} kinds: {', '.join(chosen)}"
            kinds[name] = [BAD[form][one] for one in chosen]
    for name, changes in kinds.items():
        cells = []
        for share in SHARES:
            first = share // 2
            mixed = [
                dice.choice(changes)(message) if n % share == first else message
                for n, message in enumerate(good)
            ]
            spent = measure(payloads, put_in_buffer(mixed), len(range(first, count, share)))
            cells.append(f"{spent:.0f} | {spent / alone:.1f}")
        yield f"| {form} | {name} | {' | '.join(cells)} |"


def main() -> None:
    """Measure all formats, and print a table."""
    parser = argparse.ArgumentParser(prog="benches.bad_messages", description=__doc__)
    parser.add_argument("--messages", type=int, default=100_000)
    chosen = parser.parse_args()
    shares = " | ".join(f"1 in {share}: ns | × good" for share in SHARES)
    print(f"| format | bad messages | {shares} |\n|{' --- |' * (2 + 2 * len(SHARES))}")
    for form in BAD:
        for row in rows_of(form, chosen.messages):
            print(row, flush=True)


if __name__ == "__main__":
    main()
