"""Values of ``--set`` are data in every quoting."""

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
def test_a_value_stays_within_its_quotes(value: str, mark: str) -> None:
    text = fill_expression(f"{mark}${{p}}{mark} = 1", lambda name, at: value)
    # What is quoted ends where it did, whatever stands in it.
    end, at = text.rindex(mark), 1
    while at < end:
        step = text[at]
        if mark == "`":
            assert step != mark or text[at + 1] == mark
            at += 2 if step == mark else 1
        else:
            assert step != mark
            at += 2 if step == "\\" else 1
    assert at == end
    assert text[end:] == f"{mark} = 1"


@pytest.mark.parametrize("text", ["n > ${p}", "r'${p}' = n", "'a' || ${p}", "-- '\n${p}"])
def test_a_value_outside_of_quotes_would_be_code(text: str) -> None:
    with pytest.raises(OutsideQuotesError, match=r"\$\{p\}"):
        fill_expression(text, lambda name, at: "1")


@pytest.mark.parametrize(
    "text",
    ["a = '-- ${p}'", "a = '/* ${p} */'", "`--` = '${p}'", "a = 'it\\'s ${p}'", 'a = "${p}"'],
)
def test_quotes_hold_whatever_else_is_in_them(text: str) -> None:
    assert fill_expression(text, lambda name, at: "x") == text.replace("${p}", "x")


@pytest.mark.parametrize(
    "text",
    ["/* a /* b */ '${p}' */ n", "-- a \\\n'${p}'\nn", "/* '${p}", "/* /* */ */ '${q}' /*'${p}"],
)
def test_a_value_in_a_comment_of_spark_is_not_written(text: str) -> None:
    """It could end the comment."""
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
    made = parse_pipeline(TOML.format(where="page = '${p}'"), {"p": HOSTILE}).flows[0].query
    asked = compile_query(
        "SELECT count(*) AS n FROM clicks WATERMARK ts DELAY OF INTERVAL 1 SECOND "
        "WHERE page = '${p}' GROUP BY TUMBLE(ts, INTERVAL 10 MINUTES)",
        {"p": HOSTILE},
    ).lowered.query
    assert made.where == asked.where
    tree = parse_one(str(made.where), dialect="spark")
    assert isinstance(tree, exp.EQ)
    assert tree.expression.this == HOSTILE
    with pytest.raises(MuntinError, match="stands outside of quotes; write"):
        parse_pipeline(TOML.format(where="n > ${p}"), {"p": "1 OR true"})
