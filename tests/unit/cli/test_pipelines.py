"""Tests of loading a user's pipeline."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from muntin.cli.console import show_error, summarize_error, write_details
from muntin.cli.pipelines import (
    check_settings,
    list_queries,
    load_function,
    open_pipeline,
    parse_settings,
    parse_spark_settings,
)
from muntin.model.errors import MuntinError, OptionError


class Query:
    progress = None

    def await_idle(self): ...


def test_a_file_can_import_what_lies_beside_it(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    (tmp_path / "beside_it.py").write_text("ANSWER = 42")
    path = tmp_path / "mine.py"
    path.write_text("from beside_it import ANSWER\ndef pipeline(spark): return ANSWER")
    assert load_function(path)(None) == 42


def test_what_the_code_of_a_pipeline_raises_is_named_with_its_line(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    path = tmp_path / "mine.py"
    path.write_text("def pipeline(spark):\n    return {}['pw: sesame']")
    pipeline = open_pipeline(path, {}, None)
    with pytest.raises(MuntinError) as caught:
        pipeline.start(None)
    assert str(caught.value) == f"KeyError: 'pw: ******' ({path}:2, in pipeline)"
    details = write_details(caught.value)
    assert details is not None
    assert "Traceback" in details.read_text()
    assert "sesame" not in details.read_text()
    details.unlink()
    path.write_text("import muntin\nimport nothing_of_that_name")
    with pytest.raises(MuntinError, match=r"^ModuleNotFoundError: .*mine\.py:2, in <module>\)$"):
        open_pipeline(path, {}, None)
    path.write_text("import muntin as mt\nraise mt.OptionError('a', 1, 'is wrong', 'say 2')")
    with pytest.raises(OptionError, match=r"^a=1 is wrong; say 2$"):
        open_pipeline(path, {}, None)


def test_settings_are_text_and_may_hold_an_equals_sign():
    assert parse_settings(["a=1", "b=x=y", "c="]) == {"a": "1", "b": "x=y", "c": ""}


def test_settings_of_spark_have_its_names():
    assert parse_spark_settings(["spark.a.b=x=y"]) == {"spark.a.b": "x=y"}
    for setting in ("a=1", "spark.a"):
        with pytest.raises(OptionError, match=r"isn't spark\.name=value; write for example --conf"):
            parse_spark_settings([setting])


@pytest.mark.parametrize("read", [parse_settings, parse_spark_settings])
@pytest.mark.parametrize(
    "pair", ["my-password=sesame", "password:sesame", "=sesame", "my password=sesame"]
)
def test_what_is_no_setting_is_not_shown(read, pair):
    with pytest.raises(OptionError) as caught:
        read([pair])
    assert "sesame" not in str(caught.value)
    if "=" in pair:
        assert pair.partition("=")[0] in str(caught.value)


def test_values_that_fit_no_pipeline_are_not_shown():
    with pytest.raises(OptionError, match="--set='other' doesn't fit") as caught:
        check_settings(lambda spark, data: None, {"other": "sesame"})
    assert "sesame" not in str(caught.value)


def test_settings_fit_keyword_arguments():
    check_settings(lambda spark, **rest: None, {"a": "1"})
    with pytest.raises(OptionError, match="missing a required argument"):
        check_settings(lambda spark, data: None, {})


def test_one_query_or_several_are_taken():
    query = Query()
    assert list_queries(query) == [query]
    assert list_queries((query, query)) == [query, query]


@pytest.mark.parametrize("returned", [None, [], [1], "query"])
def test_anything_else_is_refused(returned):
    with pytest.raises(OptionError, match=r"return the query that \.start"):
        list_queries(returned)


def test_an_error_of_a_worker_is_told_in_its_own_words():
    text = "Job aborted\nTraceback\n  muntin.model.errors.SpecChangedError: another spec; go back\n"
    assert summarize_error(RuntimeError(text)) == "another spec; go back"
    assert summarize_error(RuntimeError("plain\n=== Streaming Query ===\nIdentifier: …")) == "plain"


def test_the_first_line_and_the_last_one_are_the_cause():
    def lines(error, details=None):
        console = Console(file=io.StringIO(), width=80)
        show_error(console, error, details)
        return console.file.getvalue().splitlines()

    details = Path("/tmp/muntin-1.log")
    assert lines(OptionError("a", 1, "is odd", "give 2")) == ["error a=1 is odd; give 2"]
    assert lines(RuntimeError("disk full"), details) == [f"error disk full (details in {details})"]
    first, middle, last = lines(RuntimeError("disk full\nof blobs"), details)
    assert (first, middle) == ("error disk full", "of blobs")
    assert last == f"error disk full (details in {details})"


def test_an_error_shows_no_secret():
    text = "can't reach postgresql://me:ses/ame@host/db with ssl.keystore.key=ses.ame, user=me"
    summary = summarize_error(RuntimeError(text))
    assert summary == text.replace("ses/ame", "*******").replace("ses.ame", "*******")
