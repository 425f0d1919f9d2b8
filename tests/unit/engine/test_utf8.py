"""Tests that text which isn't UTF-8 reaches the engine escaped and flagged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from muntin.engine import columns
from muntin.engine.admission import Flags
from muntin.engine.operator import Task
from muntin.engine.utf8 import GARBLED, decode_with_escapes, frame_from_arrow
from muntin.spark.host.messages import add_times, read_frames
from muntin.spark.sources.parquet import ParquetReader
from muntin.state.frames import decode_frame, encode_frame
from muntin.tables import App
from muntin.tables.route import AgentStage, Route, RouteTask, TopicFormat

BYTES = [b"a", b"\xff", None, "é\0".encode(), b"b\xc3", b""]
SHOWN = ["a", "\\xff", None, "é\0", "b\\xc3", ""]


def make_texts(values: list[bytes | None], kind: Any = pa.string) -> pa.Array:
    binary_values = pa.array(values, pa.binary() if kind is pa.string else pa.large_binary())
    return pa.Array.from_buffers(kind(), len(binary_values), binary_values.buffers())


@pytest.mark.parametrize("kind", [pa.string, pa.large_string])
def test_text_is_escaped_and_flagged(kind: Any) -> None:
    table = pa.table({"k": make_texts(BYTES, kind), "n": range(6), "x": ["y"] * 6})
    # Only the rows of the slice are read, wherever they are in the buffers.
    for start, end in ((0, 6), (1, 5), (2, 3)):
        frame = decode_frame(encode_frame(frame_from_arrow(table.slice(start, end - start))))
        assert frame["k"].to_list() == SHOWN[start:end]
        assert frame["n"].to_list() == list(range(start, end))
        expected = [["k"] if shown and "\\" in shown else [] for shown in SHOWN[start:end]]
        garbled_columns = (
            frame[GARBLED].to_list() if GARBLED in frame.columns else [[]] * len(frame)
        )
        assert garbled_columns == expected


def nest_texts(flat: pa.Array) -> dict[str, pa.Array]:
    """Return columns of each nested type with six rows, the fourth null, and a text in each."""
    null, offsets = pa.array([n == 3 for n in range(6)]), pa.array(range(7), pa.int32())
    struct = pa.StructArray.from_arrays([flat, pa.array(range(6))], ["s", "n"], mask=null)
    keys = pa.array(list("uvwxyz"))
    arrays = {
        "struct": struct,
        "list": pa.ListArray.from_arrays(offsets, flat, mask=null),
        "large list": pa.LargeListArray.from_arrays(offsets.cast(pa.int64()), flat, mask=null),
        "array": pa.FixedSizeListArray.from_arrays(flat, 1, mask=null),
        "map": pa.MapArray.from_arrays(offsets, keys, flat, mask=null),
        "structs": pa.ListArray.from_arrays(offsets, struct, mask=null),
    }
    return arrays | {"deep": pa.MapArray.from_arrays(offsets, keys, arrays["structs"], mask=null)}


@pytest.mark.parametrize("kind", [pa.string, pa.large_string])
def test_nested_text_is_escaped_where_it_is(kind: Any) -> None:
    table = pa.table(nest_texts(make_texts(BYTES, kind)))
    expected = pl.from_arrow(pa.table(nest_texts(pa.array(SHOWN))))
    assert isinstance(expected, pl.DataFrame)
    for start, end in ((0, 6), (1, 5), (1, 2), (4, 6)):
        frame = decode_frame(encode_frame(frame_from_arrow(table.slice(start, end - start))))
        assert frame.drop(GARBLED).equals(expected[start:end])
        bad = [table.column_names if n in (1, 4) else [] for n in range(start, end)]
        assert frame[GARBLED].to_list() == bad


def test_text_in_dictionaries_views_and_keys_is_escaped() -> None:
    flat = make_texts([b"a", b"\xff"])
    words = pa.DictionaryArray.from_arrays(pa.array([1, 0, None, 1]), flat)
    views = pa.array([b"a", b"b", b"\xff", None], pa.binary()).cast(pa.binary_view())
    views = pa.Array.from_buffers(pa.string_view(), 4, views.buffers())
    keys = pa.MapArray.from_arrays(pa.array(range(3)), flat, pa.array([1, 2]))
    frame = frame_from_arrow(pa.table({"words": words, "views": views}))
    assert frame["words"].to_list() == ["\\xff", "a", None, "\\xff"]
    assert frame["views"].to_list() == ["a", "b", "\\xff", None]
    assert frame[GARBLED].to_list() == [["words"], [], ["views"], ["words"]]
    frame = frame_from_arrow(pa.table({"m": keys}))
    assert frame["m"].to_list() == [{"a": 1}, {"\\xff": 2}]


def test_a_message_is_malformed_if_a_column_that_is_computed_with_is() -> None:
    batch = pa.record_batch({"k": make_texts(BYTES), "n": make_texts([b"\xfe"] * 6), "t": range(6)})
    (frame,) = read_frames(iter([batch]))
    bad = [False, True, False, False, True, False]
    assert add_times(frame, "t", {"k", "t"})[columns.MALFORMED].to_list() == bad
    assert add_times(frame, "t", {"t"})[columns.MALFORMED].to_list() == [False] * 6
    assert add_times(frame, "t", {"n"})[columns.MALFORMED].to_list() == [True] * 6
    flagged = frame.with_columns(pl.Series(columns.MALFORMED, [True, *[False] * 5]))
    messages = add_times(flagged, "t", {"k"})
    assert messages[columns.MALFORMED].to_list() == [True, *bad[1:]]
    assert GARBLED not in messages.columns


def test_a_file_of_such_text_is_read_like_others(tmp_path: Path) -> None:
    path = f"{tmp_path}/a.parquet"
    table = pa.table({"N": range(6), "K": make_texts(BYTES), "other": make_texts([b"\xfe"] * 6)})
    pq.write_table(table, path, row_group_size=2)
    schema: dict[str, pl.DataType] = {"k": pl.String(), "n": pl.Int64(), "none": pl.Int64()}
    reader = ParquetReader(schema, None, Flags(None, None))
    frame = pl.concat(reader.read(path), how="diagonal")
    assert frame.select(*schema).to_dict(as_series=False) == {
        "k": SHOWN, "n": list(range(6)), "none": [None] * 6
    }  # fmt: skip
    assert frame[GARBLED].to_list() == [[], ["k"], [], [], ["k"], []]


def test_bytes_as_text() -> None:
    decoded, bad = decode_with_escapes(pl.Series("v", BYTES, dtype=pl.Binary))
    assert decoded.to_list() == SHOWN
    assert bad.to_list() == [False, True, False, False, True, False]
    assert decoded.name == "v"
    assert not decode_with_escapes(pl.Series([b"a", None]))[1].any()


def test_an_agents_rejected_value_is_shown_whatever_its_bytes() -> None:
    """Two messages have no time, one has text that isn't UTF-8, and one is valid."""
    app = App("app")
    schema = {"page": pl.String(), "value": pl.Binary(), "at": pl.Datetime("us", "UTC")}
    arrival = TopicFormat(schema, None, "value")
    routes = (Route("events", None, (), True),)
    app.topic("events")
    stage = AgentStage(app, routes, {"events": arrival}, frozenset(), {})
    times = pa.array([None, None, 1, 2], pa.timestamp("us", "UTC"))
    values = pa.array([b"\xff", b"x", b"y", b"z"])
    pages = make_texts([b"a", b"b", b"\xff", b"c"])
    batch = pa.record_batch({"page": pages, "value": values, "at": times})
    frames = [add_times(frame, "at", schema) for frame in read_frames(iter([batch]))]
    emitted = RouteTask(stage, Task("events", 0, 1)).parts(frames)
    rejected = pl.concat(part.frames["rejected"] for part in emitted if "rejected" in part.frames)
    assert sorted(rejected.select("reason", "value").rows()) == [
        ("malformed", "y"), ("null_time", "\\xff"), ("null_time", "x")
    ]  # fmt: skip
    (header,) = [part.header for part in emitted if "rejected" in part.frames]
    assert header["counts"] == {"seen": 4, "taken": 1, "null_time": 2, "malformed": 1}
