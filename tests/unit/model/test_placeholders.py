"""Tests that values of ``--set`` stay data within every kind of quotes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot import exp, parse_one

from muntin.model.errors import MuntinError
from muntin.model.placeholders import OutsideQuotesError, fill_expression
from muntin.pipelines.toml import parse_pipeline
from muntin.sql.api import compile_query

HOSTILE = "1 OR true; -- ' \" ` \\ /* */ ${q}"


@given(st.text(alphabet="ab'\"`\\-/* ${}\n", max_size=12), st.sampled_from(["'", '"', "`"]))
def test_a_value_stays_within_its_quotes(value: str, quote: str) -> None:
    text = fill_expression(f"{quote}${{p}}{quote} = 1", lambda name, at: value)
    # The quoted text ends at its last character, whatever the value is.
    end, at = text.rindex(quote), 1
    while at < end:
        char = text[at]
        if quote == "`":
            assert char != quote or text[at + 1] == quote
            at += 2 if char == quote else 1
        else:
            assert char != quote
            at += 2 if char == "\\" else 1
    assert at == end
    assert text[end:] == f"{quote} = 1"


@pytest.mark.parametrize("text", ["n > ${p}", "r'${p}' = n", "'a' || ${p}", "-- '\n${p}"])
def test_a_value_outside_of_quotes_would_be_code(text: str) -> None:
    with pytest.raises(OutsideQuotesError, match=r"\$\{p\}"):
        fill_expression(text, lambda name, at: "1")


@pytest.mark.parametrize(
    "text",
    ["a = '-- ${p}'", "a = '/* ${p} */'", "`--` = '${p}'", "a = 'it\\'s ${p}'", 'a = "${p}"'],
)
def test_comment_marks_within_quotes_are_text(text: str) -> None:
    assert fill_expression(text, lambda name, at: "x") == text.replace("${p}", "x")


@pytest.mark.parametrize(
    "text",
    ["/* a /* b */ '${p}' */ n", "-- a \\\n'${p}'\nn", "/* '${p}", "/* /* */ */ '${q}' /*'${p}"],
)
def test_a_value_in_a_comment_of_spark_is_not_written(text: str) -> None:
    """The value could end the comment."""
    filled = fill_expression(text, lambda name, at: {"q": "x"}[name])
    assert filled == text.replace("${q}", "x")


TOML = """
checkpoint = "ck"
[tables.clicks]
connector = "json"
path = "in"
columns = {{ page = "string", n = "long", ts = "timestamp" }}
time = "ts"
[tables.views]
connector = "parquet"
path = "out"
[queries.views]
from = "clicks"
where = "{where}"
windows = {{ tumbling = "10 minutes" }}
agg = {{ n = "count(*)" }}
into = "views"
"""


def test_toml_and_sql_take_a_value_as_the_same_data() -> None:
    toml_query = parse_pipeline(TOML.format(where="page = '${p}'"), {"p": HOSTILE}).flows[0].query
    sql_query = compile_query(
        "SELECT count(*) AS n FROM clicks WATERMARK ts DELAY OF INTERVAL 1 SECOND "
        "WHERE page = '${p}' GROUP BY TUMBLE(ts, INTERVAL 10 MINUTES)",
        {"p": HOSTILE},
    ).lowered.query
    assert toml_query.where == sql_query.where
    tree = parse_one(str(toml_query.where), dialect="spark")
    assert isinstance(tree, exp.EQ)
    assert tree.expression.this == HOSTILE
    with pytest.raises(MuntinError, match="stands outside of quotes; write"):
        parse_pipeline(TOML.format(where="n > ${p}"), {"p": "1 OR true"})
