"""Each option of each public function changes what the function returns, or is refused."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, isfunction, signature
from typing import Any

import polars as pl
import pytest
from tests.options.calls import ANY, BESIDE, CALLS, CLICKS

import muntin as mt
from muntin import standalone
from muntin.model.errors import MuntinError

# These need Spark, a checkpoint, or a function of the user's; tests of their own try their options.
ELSEWHERE = {
    *("aggregate", "apply", "configure", "memory", "metrics", "move", "on_spark", "open_state"),
    *("open_table", "reset_watermark", "session", "settings", "source", "sql"),
}
_MANY = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_CASES = [(name, option) for name, call in CALLS.items() for option in call.options]


def format_result(result: Any) -> str:
    """Return a text of all parts of a call's result, without addresses."""
    inside = getattr(result, "__dict__", None)
    explain = getattr(result, "explain", None)
    return f"{result!r} {inside!r} {explain() if explain else ''}"


def test_each_public_function_has_its_options_here() -> None:
    public = {name for name in mt.__all__ if isfunction(getattr(mt, name))}
    assert public - {*CALLS} == ELSEWHERE


@pytest.mark.parametrize("name", CALLS)
def test_each_option_has_a_row(name: str) -> None:
    parameters = signature(CALLS[name].function).parameters.values()
    names = {parameter.name for parameter in parameters if parameter.kind not in _MANY}
    assert {*CALLS[name].options} == names


@pytest.mark.parametrize(("name", "option"), _CASES)
def test_an_option_is_honoured_or_refused(name: str, option: str) -> None:
    call = CALLS[name]
    valid, invalid = call.options[option]
    needed = {**call.needed, **call.beside.get(option, {})}
    if valid is not BESIDE:
        assert format_result(call.run(**{**needed, option: valid})) != format_result(
            call.run(**needed)
        )
    if invalid is not ANY:
        with pytest.raises(MuntinError):
            call.run(**{**needed, option: invalid})


@pytest.mark.parametrize("name", CALLS)
def test_an_unknown_option_is_refused(name: str) -> None:
    with pytest.raises((TypeError, mt.OptionError), match="no_such_option"):
        CALLS[name].run(**CALLS[name].needed, no_such_option=1)


_TIMED = {"key": "page", "time": "ts"}
_BY_MINUTE = "GROUP BY page, TUMBLE(ts, INTERVAL '1' MINUTE)"


def _hourly() -> Any:
    return mt.windowed(CLICKS, **_TIMED).tumbling("1 hour")


_IDLE = r"idle '1 minute' has no effect|idle='1 minute.*' has no effect on input that ends"


@pytest.mark.parametrize(
    ("run", "problem"),
    [
        (
            lambda: mt.windowed(CLICKS, key="page", max_ahead="1 hour"),
            "max_ahead='1 hour' needs an event time; give time=",
        ),
        (
            lambda: standalone.windowed(key="page", max_ahead="1 hour"),
            "max_ahead='1 hour' needs an event time; give time=",
        ),
        (
            lambda: (
                mt.windowed(CLICKS, **_TIMED, idle="1 minute")
                .tumbling("1 hour")
                .agg(n=mt.count())
                .results
            ),
            _IDLE,
        ),
        (
            lambda: (
                mt.windowed(CLICKS.to_pandas(), **_TIMED, idle="1 minute")
                .tumbling("1 hour")
                .agg(n=mt.count())
                .start(checkpoint=None)
            ),
            _IDLE,
        ),
        (
            lambda: (
                mt.join(
                    mt.windowed(CLICKS, time="ts"),
                    mt.windowed(CLICKS, time="ts", idle="1 minute"),
                    on="page",
                    within="1 minute",
                ).rejected
            ),
            r"idle='1 minute \(right\)' has no effect on input that ends",
        ),
        (
            lambda: (
                mt.sql(
                    "SELECT page, count(*) AS n FROM clicks WATERMARK ts DELAY OF 0 SECONDS "
                    f"IDLE AFTER '1 minute' {_BY_MINUTE}",
                    clicks=CLICKS.with_columns(ts=pl.lit(0).cast(pl.Datetime("us"))),
                ).results
            ),
            _IDLE,
        ),
        (
            lambda: (
                mt.windowed(CLICKS, key="page", clock="ts").tumbling(mt.rows(3)).agg(n=mt.count())
            ),
            "clock='ts' has no effect without max_ahead=",
        ),
        (
            lambda: (
                mt.windowed(CLICKS, **_TIMED, clock="ts", max_ahead="any")
                .tumbling("1 hour")
                .agg(n=mt.count())
            ),
            "clock='ts' has no effect without max_ahead=",
        ),
        (
            lambda: mt.join(
                mt.windowed(CLICKS, time="ts", clock="ts", max_ahead=None),
                mt.windowed(CLICKS, time="ts"),
                on="page",
                within="1 minute",
            ),
            "clock='ts' has no effect without max_ahead=",
        ),
        (
            lambda: _hourly().late(grace="0 seconds", each=True),
            "late='each message' has no effect without a grace; give one such as",
        ),
        (
            lambda: (
                mt.windowed(CLICKS, key="page")
                .rolling(mt.rows(3))
                .early(every="1 second")
                .agg(n=mt.count())
            ),
            "early='every 1 second of wall clock' has no effect on rolling 3 rows",
        ),
        (
            lambda: (
                mt.windowed(CLICKS, key="page")
                .tumbling(mt.rows(3))
                .keep(mt.rows(9))
                .agg(n=mt.count())
            ),
            "keep='9 rows' has no effect: windows in the order of arrival go when they are full",
        ),
        (lambda: _hourly().agg(n=mt.count()).explain(keys=5), "keys=5 has no effect without rate="),
        (lambda: _hourly().agg(n=mt.count()).explain(rate=0), "rate=0 isn't a rate above 0"),
        (lambda: mt.ticks(float("inf")), "rate=inf isn't above 0"),
        (
            lambda: mt.windowed(CLICKS, **_TIMED, offset=("n", "n")),
            r"offset=\('n', 'n'\) names one column twice",
        ),
        (lambda: _hourly().top(1, by=["n", "n"]), "by='n' is named twice; name it once"),
        (
            lambda: mt.join(
                mt.windowed(CLICKS, time="ts"),
                mt.windowed(CLICKS, time="ts"),
                on=["page", "page"],
                within="1 hour",
            ),
            "on='page' is named twice; name it once",
        ),
        (
            lambda: (
                _hourly()
                .agg(n=mt.count())
                .start(
                    checkpoint=None,
                    results=mt.to_parquet("out", partition_by=pl.col("page").alias("Batch")),
                )
            ),
            "partition_by='batch' is the name of the folders of batches",
        ),
        (
            lambda: mt.to_postgres("host=localhost", "public.views"),
            "table='public.views' would be a name with a dot, .*; give schema='public', table='vi",
        ),
        (
            lambda: mt.files("in/*.csv", columns="page string, at string", zone="Europe/Paris"),
            "zone='Europe/Paris' has no effect on columns without timestamps; leave it out, or",
        ),
        (
            lambda: mt.kafka("localhost:9092", "clicks", format="csv"),
            "format='csv' needs columns; give columns=",
        ),
        (
            lambda: mt.to_kafka("localhost:9092", "views", key=[]),
            r"key=\[\] names no column; give one, or leave it out",
        ),
        (
            lambda: mt.kafka(
                "localhost:9092", "t", columns="a string", reader="spark", patience="5 minutes"
            ).in_columns(),
            "patience='300 seconds' isn't possible: reader='spark'; leave out one of both",
        ),
        (
            lambda: mt.sql(
                "SELECT page, count(*) AS n FROM clicks WATERMARK ts DELAY OF 5 SECONDS "
                "GROUP BY page, TUMBLE(3 ROWS)",
                clicks=CLICKS,
            ),
            "a watermark has no effect on rows, which are counted as they come; leave it out",
        ),
        (
            lambda: mt.sql(
                "SELECT page, count(*) AS n FROM clicks WATERMARK ts DELAY OF 5 SECONDS "
                f"{_BY_MINUTE} EMIT LATE EVERY 1 SECOND GRACE 0 SECONDS",
                clicks=CLICKS,
            ),
            "without a grace late messages are rejected",
        ),
    ],
)
def test_an_option_without_an_effect_is_refused(run: Callable[[], Any], problem: str) -> None:
    with pytest.raises(MuntinError, match=problem):
        run()
