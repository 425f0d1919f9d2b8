"""Tests of the errors that translate words of other libraries into muntin's."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import polars as pl
import pytest

import muntin as mt
from muntin.hosts.inspect.windows import OpenWindows
from muntin.model.aggregate_hints import translate_call

WINDOWS: Any = mt.standalone.windowed(key="k", time="at").tumbling("10 us")


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("start", r"without \.agg\(…\) have no 'start'; say what they compute first.*\)\.start"),
        ("results", r"\.agg\(n=muntin\.count\(\)\)\.results"),
        ("show", r"\.results"),
        ("groupBy", "key="),
        ("suppress", "leave it out"),
        ("session_window", r"write \.session"),
        ("count", r"\.agg\(name=…\)"),
        ("windowedBy", r"write \.tumbling"),
        ("tumblin", r"did you mean \.tumbling\?"),
        ("whatever", r"have no 'whatever'$"),
    ],
)
def test_unknown_attributes_of_windows_without_aggregates(word: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=hint):
        getattr(WINDOWS, word)
    assert not hasattr(WINDOWS, "_repr_mimebundle_")
    assert copy.copy(WINDOWS) == pickle.loads(pickle.dumps(WINDOWS)) == WINDOWS


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("Column<'sum(v)'>", 'muntin.sum("v")'),
        ("Column<'avg(v)'>", 'muntin.mean("v")'),
        ("Column<'count(1)'>", "muntin.count()"),
        (str(pl.col("v").mean()), 'muntin.mean("v")'),
        (str(pl.col("v").n_unique()), 'muntin.count_distinct("v")'),
        ("Column<'upper(v)'>", None),
        ("3", None),
    ],
)
def test_an_aggregate_of_another_library_is_written_in_ours(text: str, call: str | None) -> None:
    assert translate_call(text) == call


def test_agg_names_what_to_write() -> None:
    with pytest.raises(mt.OptionError, match=r'write total=muntin\.sum\("v"\)'):
        WINDOWS.agg(total=pl.col("v").sum())
    with pytest.raises(mt.OptionError, match=r"give one of muntin's"):
        WINDOWS.agg(total=3)
    with pytest.raises(mt.OptionError, match=r'write total=muntin\.mean\("v"\)'):
        WINDOWS.agg(total=("v", "mean"))
    with pytest.raises(mt.OptionError, match=r'write \.agg\(v=muntin\.sum\("v"\)\)'):
        WINDOWS.agg({"v": "sum"})
    with pytest.raises(mt.OptionError, match=r'write \.agg\(name=muntin\.sum\("v"\)\)'):
        WINDOWS.agg(pl.col("v").sum())


def test_unknown_attributes_of_a_query() -> None:
    frame = pl.DataFrame({"k": ["a"], "at": [1], "v": [2.0]}).cast({"at": pl.Datetime("us")})
    query: Any = mt.windowed(frame, key="k", time="at").tumbling("1 s").agg(n=mt.count())
    with pytest.raises(AttributeError, match=r"a query has no 'show'; \.results is the frame of"):
        query.show()
    with pytest.raises(AttributeError, match=r"no 'schema'; \.results has it"):
        _ = query.schema
    with pytest.raises(AttributeError, match=r"no attribute 'to_console'; it is muntin\.to_print"):
        mt.to_console()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"no attribute 'merge_asof'; it is muntin\.join\("):
        mt.merge_asof(frame, frame)  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"say it before \.agg"):
        query.early(each=True)
    with pytest.raises(AttributeError, match=r"did you mean \.results\?"):
        query.result()
    running = query.start(checkpoint=None)
    with pytest.raises(AttributeError, match=r"awaitTermination'; write \.await_end\(\)"):
        running.awaitTermination()
    assert running.await_end(30)


FRAME = pl.DataFrame({"k": ["a"], "at": ["2026-01-01 09:00:00"]})
COUNTS: Any = mt.windowed(FRAME, key="k", time="at").tumbling("1 s").agg(n=mt.count())
SOURCES: list[Any] = [mt.kafka("host", "t", columns="k string"), mt.ticks(1), mt.files("in/*.csv")]
APP: Any = mt.App("words")
TOPIC: Any = APP.topic("clicks")
TABLE: Any = APP.Table("views", default=int)
STATE: Any = OpenWindows.__new__(OpenWindows)
WINDOWED: Any = APP.Table("windowed", default=int).tumbling("1 minute", expires="1 hour")


@pytest.mark.parametrize(
    ("subject", "word", "hint"),
    [
        (COUNTS, "withColumn", r"\.results is the frame"),
        (COUNTS, "sink_parquet", r"muntin\.to_parquet\(…\)"),
        (COUNTS, "awaitTermination", r"\.start\(checkpoint=…\) returns the query"),
        (WINDOWS, "group_by_dynamic", r"write \.tumbling"),
        (WINDOWS, "allowedLateness", r"write \.late\(grace=…\)"),
        *((source, "filter", r"where=…") for source in SOURCES),
        *((source, "group_by", r"key=…") for source in SOURCES),
        *((source, "collect", r"a query reads it") for source in SOURCES),
        (APP, "main", r"app\.open\(\)"),
        (APP, "agnet", r"did you mean \.agent\?"),
        (TOPIC, "publish", r"running\.send"),
        (TABLE, "to_pandas", r"pandas\.DataFrame\(table\.items\(\)\)"),
        (WINDOWED, "get", r"table\[key\]\.current\(\)"),
        (STATE, "all", r"write \.fetch\(key, start=…, end=…\)"),
    ],
)
def test_words_of_other_libraries_are_answered(subject: Any, word: str, hint: str) -> None:
    with pytest.raises(AttributeError, match=f"no '{word}'; .*{hint}"):
        getattr(subject, word)


@pytest.mark.parametrize("subject", [WINDOWS, COUNTS, *SOURCES, APP, TOPIC], ids=repr)
def test_objects_that_are_no_frame_explain_where_their_rows_are(subject: Any) -> None:
    assert subject
    hint = "; (say what they|write query.results|a query reads it|its tables are|write @app)"
    for use, problem in (
        (len, "no length"),
        (list, "no rows to iterate over"),
        (lambda subject: subject["n"], "no item 'n'"),
        (lambda subject: "n" in subject, "no rows to iterate over"),
    ):
        with pytest.raises(TypeError, match=f"{problem}{hint}"):
            use(subject)
    assert copy.copy(subject) is not None


def test_a_running_query_explains_where_its_rows_are() -> None:
    query: Any = COUNTS.start(checkpoint=None)
    assert query.await_end(30)
    for word in ("cancel", "restart", "collect"):
        with pytest.raises(AttributeError, match=f"a running query has no '{word}'; "):
            getattr(query, word)
    with pytest.raises(TypeError, match=r"no length; .* it has \.frame\(\)"):
        len(query)


def test_an_incomplete_query_shows_what_to_add() -> None:
    incomplete = mt.standalone.windowed(key="k", time="at")
    assert repr(incomplete).startswith("no windows on at yet: add .tumbling(")
    assert repr(WINDOWS).endswith("without aggregates yet: add .agg(n=muntin.count())")


def test_sql_is_a_function_though_its_package_is_imported() -> None:
    import muntin.sql.api
    from muntin.dataframe.sql import sql

    assert mt.sql is sql
    assert "SELECT" in (mt.sql.__doc__ or "")
    assert muntin.sql is sql
