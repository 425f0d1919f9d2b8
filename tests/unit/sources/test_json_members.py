"""Tests that members of other types than their columns' are those that Polars can't read."""

from __future__ import annotations

import io
import json

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from polars.exceptions import PolarsError

from muntin.sources.json_members import blank_inner, find_faults, find_members
from muntin.sources.payload_lines import PayloadLines

SCHEMA = pl.Schema({"n": pl.Int64(), "a.b": pl.Float64(), "t": pl.Boolean(), "s": pl.String()})
SCALARS = st.one_of(
    st.sampled_from([
        "null", "true", "false", '"x"', '""', '"n\\":1"', '"}{"', '"\\\\"', "-0", "0", "1.5", "1e3",
        "-1E2", "[]", "{}", '[1,"n"]', '{"n":"x"}', '[[[[[{"n":[]}]]]]]', '{"n":1,"t":{"t":2}}',
    ]),
    st.integers(-(2**63) - 3, -(2**63) + 3).map(str),
    st.integers(2**63 - 3, 2**63 + 3).map(str),
    st.integers(-(10**30), 10**30).map(str),
)  # fmt: skip
NAMES = st.sampled_from(["n", "a.b", "axb", "t", "s", "", ":", "\\u006e", "n\\n", "{", "n,"])
BLANKS = st.sampled_from(["", " ", "\t\r"])


@st.composite
def draw_object(draw: st.DrawFn) -> str:
    """Draw an object of any members, some of which may come twice."""
    members = draw(st.lists(st.tuples(NAMES, BLANKS, SCALARS), max_size=5))
    blank = draw(BLANKS)
    texts = (f'{blank}"{name}"{gap}:{gap}{value}{blank}' for name, gap, value in members)
    return blank + "{" + ",".join(texts) + "}"


def find_fault(text: str) -> int:
    """Return the first column that Polars can't read by itself."""
    for number, (name, dtype) in enumerate(SCHEMA.items()):
        try:
            pl.read_ndjson(io.BytesIO(text.encode()), schema={"": pl.String(), name: dtype})
        except PolarsError:
            return number
    return -1


@given(st.lists(draw_object(), min_size=1, max_size=8))
@example(['{"n":1,"n":"x"}', '{"n":"x","n":1}', '{"x":{"n":"x"},"n":1}', '{"n\\"":"n","n":true}'])
def test_a_fault_is_the_first_column_that_cant_be_read(texts: list[str]) -> None:
    lines = PayloadLines(pl.Series(texts))
    assert find_faults(lines, SCHEMA, [*SCHEMA]).tolist() == [find_fault(text) for text in texts]
    assert lines.texts.to_list() == texts


@given(st.lists(draw_object(), min_size=1, max_size=8))
def test_a_member_is_a_value_other_than_null(texts: list[str]) -> None:
    first = [dict(reversed(json.loads(text, object_pairs_hook=list))) for text in texts]
    expected = [members.get("n") is not None for members in first]
    assert find_members(PayloadLines(pl.Series(texts)), "n").tolist() == expected


@pytest.mark.parametrize(
    ("text", "blanked"),
    [
        ('{"a":{"b":"c"}}', '{"a":\x01\x01b\x01:\x01c\x01}}'),
        ('{"a":[[1],2],"b":3}', '{"a":\x01\x011\x01,2],"b":3}'),
        ('{"a{":"}["}', '{"a{":"}["}'),
        ('{"a":"\\"{","b":[]}', '{"a":"\x01{","b":\x01]}'),
    ],
)
def test_only_an_objects_own_members_keep_their_quotes(text: str, blanked: str) -> None:
    assert blank_inner(pl.Series(["{}", text]))[0].to_list() == ["{}", blanked]
