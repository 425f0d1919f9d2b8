"""The command ``muntin windowing``, with a query that is made up."""

from __future__ import annotations

import io
import json
from contextlib import nullcontext
from typing import Any

import pytest
from rich.console import Console
from tests.unit.apps.windowing.test_report import progress
from typer.testing import CliRunner

from muntin.apps.windowing import Options
from muntin.cli import windowing
from muntin.cli.app import build
from muntin.cli.console import QueryFailedError
from muntin.cli.windowing import ProgressReporter, follow


class Query:
    """Has a batch each time it is looked at; may fail after some."""

    def __init__(self, reporter: ProgressReporter, fails_after: int = 10**9) -> None:
        self.query = self
        self.reporter = reporter
        self.fails_after = fails_after
        self.batch = 0
        self.stopped = False

    @property
    def is_active(self) -> bool:
        if self.stopped or self.batch >= self.fails_after:
            return False
        self.reporter.add_batch(self.batch, [progress(greatest=self.batch // 4)], 3_723_000)
        self.batch += 1
        return True

    def exception(self) -> Exception | None:
        return RuntimeError("disk full") if self.batch >= self.fails_after else None

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Time that passes by itself: a tenth of a second each time somebody sleeps."""
    now = [1000.0]
    monkeypatch.setattr(windowing.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(windowing.time, "sleep", lambda s: now.__setitem__(0, now[0] + s))


def ran(
    terminal: bool = False, as_json: bool = False, **options: float
) -> tuple[ProgressReporter, str]:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=120)
    reporter = ProgressReporter(console, Options(**options), as_json=as_json)  # type: ignore[arg-type]
    query = Query(reporter)
    follow(query, reporter.monitor.options, reporter)
    assert query.stopped
    return reporter, console.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(("interval", "reports"), [(1, 5), (2, 3), (60, 1)])
def test_a_report_comes_each_interval_until_the_duration_is_over(interval, reports):
    _, said = ran(displayinterval=interval, duration=5)
    assert said.count(" Report:") == reports
    assert "initial maximum value for the dataset has been set to 0." in said
    assert "has changed from 0 to 1." in said


@pytest.mark.usefixtures("clock")
def test_a_terminal_shows_one_view_that_changes():
    reporter, said = ran(terminal=True, displayinterval=1, duration=3)
    assert reporter.last.inserted
    for part in ("windowing: rows of the last 30 s", "average of 30 s", "backlog", "of 3 s"):
        assert part in said
    assert " Report:" not in said


@pytest.mark.usefixtures("clock")
def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]):
    reporter, said = ran(as_json=True, displayinterval=1, duration=2)
    reporter.write(reporter.monitor.summary(1010.0))
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert not said
    assert events.count("report") == 2
    assert events[0] == "maximum"
    assert events[-1] == "summary"


@pytest.mark.usefixtures("clock")
def test_a_failure_is_told():
    reporter = ProgressReporter(Console(file=io.StringIO()), Options())
    with pytest.raises(QueryFailedError, match="disk full"):
        follow(Query(reporter, fails_after=3), reporter.monitor.options, reporter)


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--maxrows", "-1"], "maxrows=-1 is less than 0"),
        (["--historyseconds", "0"], "keep every row indefinitely"),
        (["--averages", "1,two"], "averages='1,two' aren't numbers"),
        (["--source", "elsewhere"], "source='elsewhere' isn't a source"),
        (["--clock", "sun"], "clock='sun' isn't a clock"),
        (["--deletechunksize", "0", "--inline"], "deletechunksize=0 is less than 1"),
        (["--ratelimit", "0", "--displayinterval", "2"], "ratelimit=0 is less than 1"),
        (["--deleteyieldtime", "-1", "--duration", "9"], "deleteyieldtime=-1 is less than 0"),
    ],
)
def test_options_are_checked_before_spark_starts(args, said):
    emitted = CliRunner().invoke(build(), ["windowing", *args])
    assert emitted.exit_code == 1
    assert said in " ".join(emitted.stderr.split())
    assert "Starting Spark" not in emitted.output


@pytest.mark.usefixtures("clock")
@pytest.mark.parametrize(
    ("args", "remembered", "shards"),
    [([], 3, 3), ([], None, 5), (["--shards", "7"], 3, 7)],
)
def test_a_run_goes_on_with_the_shards_of_its_checkpoint(
    args: list[str], remembered: int | None, shards: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Options] = []

    def start(spark: object, options: Options, took: Any, folder: str, rows: object) -> Query:
        started.append(options)
        return Query(took.__self__)

    monkeypatch.setattr(windowing, "session", lambda *_, **__: nullcontext(object()))
    monkeypatch.setattr("muntin.spark.host.shards.read_stored_shards", lambda *_: remembered)
    monkeypatch.setattr("muntin.spark.host.shards.count_shards", lambda *_: 5)
    monkeypatch.setattr("muntin.apps.windowing.query.start", start)
    given = ["--checkpoint", "table", "--shardrows", "9", "--deletes", "calls", "--duration", "1"]
    emitted = CliRunner().invoke(build(), ["windowing", "--no-page", *given, *args])
    (options,) = started
    assert (options.shards, options.shardrows, options.deletes) == (shards, 9, "calls")
    assert "Summary of" in emitted.stdout
